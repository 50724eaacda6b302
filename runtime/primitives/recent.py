"""The samples of a recent span of time, and their percentiles."""

from __future__ import annotations

import math
from collections import deque

__all__ = ["RecentSamples"]


class RecentSamples:
    """Keeps at most `limit` samples not older than `span_ns`; the oldest go first. Reading changes nothing."""

    __slots__ = ("_samples", "_span_ns")

    def __init__(self, span_ns: int, limit: int = 2048) -> None:
        if span_ns <= 0 or limit <= 0:
            raise ValueError(f"span_ns is {span_ns}, limit is {limit}; allowed: above 0")
        self._span_ns = span_ns
        self._samples: deque[tuple[int, float]] = deque(maxlen=limit)

    def add(self, sample: float, now_ns: int) -> None:
        self._samples.append((now_ns, sample))

    def quantile(self, q: float, now_ns: int) -> float | None:
        """The smallest sample with at least a share `q` of the samples at or below it; None where there is none."""
        if not 0.0 < q <= 1.0:
            raise ValueError(f"q is {q}; allowed: above 0, at most 1")
        values = sorted(value for at_ns, value in self._samples if now_ns - at_ns <= self._span_ns)
        if not values:
            return None
        return values[math.ceil(q * len(values)) - 1]

    def mean(self, now_ns: int) -> float | None:
        values = [value for at_ns, value in self._samples if now_ns - at_ns <= self._span_ns]
        return sum(values) / len(values) if values else None
