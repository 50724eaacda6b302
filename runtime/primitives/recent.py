"""The samples of a recent span of time, and their percentiles."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque

__all__ = ["RecentSamples"]


class RecentSamples:
    """Keeps at most `limit` samples not older than `span_ns`; the oldest go first. Reading changes nothing.

    The samples are kept in order of their values too, since a load report, which every reservation is answered with, asks for
    percentiles of some hundreds of them.
    """

    __slots__ = ("_limit", "_ordered", "_samples", "_span_ns")

    def __init__(self, span_ns: int, limit: int = 2048) -> None:
        if span_ns <= 0 or limit <= 0:
            raise ValueError(f"span_ns is {span_ns}, limit is {limit}; allowed: above 0")
        self._span_ns = span_ns
        self._limit = limit
        self._samples: deque[tuple[int, float]] = deque()
        self._ordered: list[float] = []

    def add(self, sample: float, now_ns: int) -> None:
        while self._samples and (len(self._samples) >= self._limit or now_ns - self._samples[0][0] > self._span_ns):
            _, oldest = self._samples.popleft()
            del self._ordered[bisect_left(self._ordered, oldest)]
        self._samples.append((now_ns, sample))
        insort(self._ordered, sample)

    def quantile(self, q: float, now_ns: int) -> float | None:
        """The smallest sample with at least a share `q` of the samples at or below it; None where there is none."""
        if not 0.0 < q <= 1.0:
            raise ValueError(f"q is {q}; allowed: above 0, at most 1")
        values = self._ordered
        if self._samples and now_ns - self._samples[0][0] > self._span_ns:  # nothing has come for a while
            values = sorted(value for at_ns, value in self._samples if now_ns - at_ns <= self._span_ns)
        if not values:
            return None
        return values[math.ceil(q * len(values)) - 1]

    def mean(self, now_ns: int) -> float | None:
        values = [value for at_ns, value in self._samples if now_ns - at_ns <= self._span_ns]
        return sum(values) / len(values) if values else None
