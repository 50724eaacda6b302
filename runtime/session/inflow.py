"""A token bucket that bounds how fast new sessions may start at this runtime."""

from __future__ import annotations

__all__ = ["InflowBucket"]


class InflowBucket:
    """Holds up to `depth` tokens; one start takes one. The rate follows the fair share that reservations carry.

    rate = max(floor_per_s, burst_factor * fair_share_per_s)      [tokens a second]
    """

    __slots__ = ("_at_ns", "_burst_factor", "_depth", "_floor_per_s", "_rate_per_s", "_tokens")

    def __init__(self, depth: int, floor_per_s: float, burst_factor: float, now_ns: int) -> None:
        self._depth = depth
        self._floor_per_s = floor_per_s
        self._burst_factor = burst_factor
        self._rate_per_s = floor_per_s
        self._tokens = float(depth)
        self._at_ns = now_ns

    def set_fair_share(self, fair_share_per_s: float, now_ns: int) -> None:
        """0 means that the balancer does not know it yet; the rate stays."""
        if fair_share_per_s > 0.0:
            self._refill(now_ns)
            self._rate_per_s = max(self._floor_per_s, self._burst_factor * fair_share_per_s)

    def take(self, now_ns: int) -> bool:
        self._refill(now_ns)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def wait_ms(self) -> int:
        """Milliseconds until the next token, after a refused `take`."""
        return max(1, int((1.0 - self._tokens) / self._rate_per_s * 1000.0) + 1)

    def _refill(self, now_ns: int) -> None:
        elapsed_s = max(0, now_ns - self._at_ns) / 1e9
        self._at_ns = max(self._at_ns, now_ns)
        self._tokens = min(float(self._depth), self._tokens + elapsed_s * self._rate_per_s)
