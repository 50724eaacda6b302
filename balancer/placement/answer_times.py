"""How long runtimes take to answer a reservation: what is worth waiting for a better place."""

from __future__ import annotations

from collections import deque
from typing import Final

from runtime.primitives.clock import NS_PER_S

__all__ = ["AnswerTimes"]

_KEPT: Final = 256
_SHORTEST_S: Final = 0.005
_LONGEST_S: Final = 0.020


class AnswerTimes:
    """The last 256 answers."""

    __slots__ = ("_times_s",)

    def __init__(self) -> None:
        self._times_s: deque[float] = deque(maxlen=_KEPT)

    def add(self, elapsed_ns: int) -> None:
        self._times_s.append(elapsed_ns / NS_PER_S)

    def patience_s(self) -> float:
        """Three times the 99th percentile, between 5 and 20 ms; 20 ms before anything is known."""
        if not self._times_s:
            return _LONGEST_S
        ordered = sorted(self._times_s)
        p99_s = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
        return min(max(3.0 * p99_s, _SHORTEST_S), _LONGEST_S)
