"""How many sessions a second the fleet starts: up at once, down slowly."""

from __future__ import annotations

import math
from typing import Final

from runtime.primitives.clock import NS_PER_S

__all__ = ["StartRate"]

_FAST_S: Final = 2.0
_SLOW_S: Final = 30.0
_ENOUGH: Final = 5
"""Starts below which a rate is a guess: 0 is answered, which receivers read as unknown."""


class StartRate:
    """The larger of a fast and a slow exponentially decaying event rate, so that a burst raises it within a second or two.

    Each event adds 1/tau to a rate that decays with exp(-dt/tau); the mean of that is the true rate.
    """

    __slots__ = ("_at_ns", "_fast", "_seen", "_slow")

    def __init__(self) -> None:
        self._fast = 0.0
        self._slow = 0.0
        self._seen = 0.0
        self._at_ns = 0

    def add(self, now_ns: int, count: float = 1.0) -> None:
        self._fast, self._slow = self._decayed(now_ns)
        self._at_ns = max(self._at_ns, now_ns)
        self._fast += count / _FAST_S
        self._slow += count / _SLOW_S
        self._seen += count

    def per_s(self, now_ns: int) -> float:
        """Starts per second; 0 while fewer than five were seen. Reading changes nothing."""
        return max(self._decayed(now_ns)) if self._seen >= _ENOUGH else 0.0

    def slow_per_s(self, now_ns: int) -> float:
        """The slow rate alone, for starts that are heard of in lumps."""
        return self._decayed(now_ns)[1]

    def _decayed(self, now_ns: int) -> tuple[float, float]:
        elapsed_s = max(0, now_ns - self._at_ns) / NS_PER_S
        return self._fast * math.exp(-elapsed_s / _FAST_S), self._slow * math.exp(-elapsed_s / _SLOW_S)
