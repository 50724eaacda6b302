"""Time as far as we were awake for it: our own late loop is not charged to the peers.

A balancer whose loop stood still for two seconds has heard nobody for two seconds, and that says nothing about anybody. So
silence is measured on a clock that a periodic tick advances by at most `largest_step_ns`: what is beyond that was our own
lateness. (The idea of distrusting oneself first is memberlist's health awareness.)
"""

from __future__ import annotations

__all__ = ["AwakeClock"]


class AwakeClock:
    """Advances with the ticks, never faster than real time."""

    __slots__ = ("_awake_ns", "_largest_step_ns", "_ticked_ns", "slept_ns")

    def __init__(self, now_ns: int, largest_step_ns: int) -> None:
        self._awake_ns = 0
        self._ticked_ns = now_ns
        self._largest_step_ns = largest_step_ns
        self.slept_ns = 0
        """How much time was not charged to anybody, in all."""

    def at(self, now_ns: int) -> int:
        """The awake time at `now_ns`, in nanoseconds since this clock began."""
        return self._awake_ns + min(max(0, now_ns - self._ticked_ns), self._largest_step_ns)

    def tick(self, now_ns: int) -> int:
        """To be called at least every `largest_step_ns`; returns the awake time."""
        elapsed_ns = max(0, now_ns - self._ticked_ns)
        step_ns = min(elapsed_ns, self._largest_step_ns)
        self._awake_ns += step_ns
        self.slept_ns += elapsed_ns - step_ns
        self._ticked_ns = max(self._ticked_ns, now_ns)
        return self._awake_ns
