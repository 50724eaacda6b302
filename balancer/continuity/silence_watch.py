"""When a runtime that says nothing is probed, and when it is suspected.

Times are awake time (balancer/fleet/awake_clock.py): what we were late ourselves is not charged to it.
"""

from __future__ import annotations

from enum import StrEnum

from runtime.primitives.clock import NS_PER_MS

__all__ = ["Silence", "SilenceWatch"]


class Silence(StrEnum):
    NONE = "none"
    """It was heard since the last look."""
    SHORT = "short"
    """No reason to do anything."""
    TOO_LONG = "too_long"


class SilenceWatch:
    """One runtime's connection. Probes go on while it is suspected: an answer clears it."""

    __slots__ = ("_heard_ns", "_probe_after_ns", "_probed_ns", "_suspect_after_ns")

    def __init__(self, probe_after_ms: int, suspect_after_ms: int) -> None:
        self._probe_after_ns = probe_after_ms * NS_PER_MS
        self._suspect_after_ns = suspect_after_ms * NS_PER_MS
        self._heard_ns: int | None = None
        self._probed_ns = 0

    def begin_again(self) -> None:
        """Another runtime's connection; its silence counts from the next look on."""
        self._heard_ns = None

    def look(self, awake_ns: int, was_heard: bool, may_probe: bool = True) -> tuple[Silence, bool]:
        """What its silence is by now, and whether a probe is to be sent. `was_heard`: since the last look, or it could not be.
        `may_probe`: False where enough others are probed in its place."""
        if was_heard or self._heard_ns is None:
            self._heard_ns = self._probed_ns = awake_ns
            return Silence.NONE, False
        is_due = may_probe and awake_ns - self._probed_ns >= self._probe_after_ns
        if is_due:
            self._probed_ns = awake_ns
        is_long = awake_ns - self._heard_ns >= self._suspect_after_ns
        return (Silence.TOO_LONG if is_long else Silence.SHORT), is_due
