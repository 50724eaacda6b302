"""A token bucket that bounds how fast new sessions may start at this runtime, most of all while it is new.

An empty runtime in a full fleet is everybody's favourite: without a bound it would get all starts at once, and its caches,
models and CPU meter are cold.
"""

from __future__ import annotations

from typing import Final

__all__ = ["InflowBucket"]

_LEAST_DEPTH: Final = 4.0
_RAMP_DEPTH_S: Final = 2.0
_RAMP_FACTORS: Final = (2.0, 3.0)


class InflowBucket:
    """Holds up to `depth` tokens; one start takes one. The rate follows the fair share that reservations carry.

    rate = max(floor_per_s, factor * fair_share_per_s)      [tokens a second]

    For the first `ramp_s` of a runtime's life the depth is 4, or two seconds of the rate, and the factor rises from 2 to 3; then
    both have their full values.
    Without a fair share nobody prefers this runtime to others, and there is no ramp.
    """

    __slots__ = ("_at_ns", "_burst_factor", "_depth", "_fair_share_per_s", "_floor_per_s", "_ramp_ns", "_since_ns", "_tokens")

    def __init__(self, depth: int, floor_per_s: float, burst_factor: float, now_ns: int, ramp_s: float = 0.0) -> None:
        self._depth = depth
        self._floor_per_s = floor_per_s
        self._burst_factor = burst_factor
        self._fair_share_per_s = 0.0
        self._ramp_ns = ramp_s * 1e9
        self._since_ns = self._at_ns = now_ns
        self._tokens = float(depth)

    def set_fair_share(self, fair_share_per_s: float, now_ns: int) -> None:
        """0 means that the balancer does not know it yet; the rate stays."""
        if fair_share_per_s > 0.0:
            self._refill(now_ns)
            self._fair_share_per_s = fair_share_per_s

    def take(self, now_ns: int) -> bool:
        self._refill(now_ns)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def wait_ms(self) -> int:
        """Milliseconds until the next token, after a refused `take`."""
        return max(1, int((1.0 - self._tokens) / self._rate_per_s() * 1000.0) + 1)

    def _grown(self) -> float:
        if self._ramp_ns <= 0.0 or self._fair_share_per_s <= 0.0:
            return 1.0
        return min(1.0, (self._at_ns - self._since_ns) / self._ramp_ns)

    def _rate_per_s(self) -> float:
        grown = self._grown()
        first, last = _RAMP_FACTORS
        factor = self._burst_factor if grown >= 1.0 else min(first + (last - first) * grown, self._burst_factor)
        return max(self._floor_per_s, factor * self._fair_share_per_s)

    def _refill(self, now_ns: int) -> None:
        elapsed_s = max(0, now_ns - self._at_ns) / 1e9
        rate_per_s = self._rate_per_s()
        self._at_ns = max(self._at_ns, now_ns)
        depth = float(self._depth)
        if self._grown() < 1.0:
            depth = min(depth, max(_LEAST_DEPTH, _RAMP_DEPTH_S * rate_per_s))
        self._tokens = min(depth, self._tokens + elapsed_s * rate_per_s)
