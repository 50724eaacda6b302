"""Fewest sessions for its limit, averaged over ten seconds, so that a short burst on one runtime does not repel everybody."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from balancer.routing.draw import lowest
from balancer.routing.policy import Choice, Question
from runtime.primitives.clock import NS_PER_MS, NS_PER_S
from runtime.primitives.rng import Rng

__all__ = ["WeightedLeastConnection"]

_AVERAGE_S: Final = 10.0
_STEP_NS: Final = 50 * NS_PER_MS


class WeightedLeastConnection:
    name = "weighted_least_connection"
    claim = "fewest sessions for its limit over ten seconds"
    uses_capacity = False

    def __init__(self) -> None:
        self._mean: NDArray[np.float64] = np.zeros(0)
        self._at_ns = 0
        self._membership = -1

    def order(self, question: Question, rng: Rng) -> list[Choice]:
        columns, kept = question.view.columns, question.pool.kept
        elapsed_ns = question.now_ns - self._at_ns
        if self._membership != question.view.membership or self._mean.shape[0] != columns.size:
            self._mean = columns.estimate.copy()  # who came or left starts at what it has
            self._membership = question.view.membership
            self._at_ns = question.now_ns
        elif elapsed_ns >= _STEP_NS:
            self._mean += (columns.estimate - self._mean) * (1.0 - math.exp(-elapsed_ns / NS_PER_S / _AVERAGE_S))
            self._at_ns = question.now_ns
        return lowest(self._mean[kept] / np.maximum(columns.hard_limit[kept], 1.0), question, rng)
