"""Seeded draws as arrays, from the one generator that the product knows."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from runtime.primitives.rng import SeededRng

__all__ = ["Chance"]

_NORMAL = NormalDist()


class Chance:
    def __init__(self, seed: int) -> None:
        self._rng = SeededRng(seed)

    def uniform(self, low: float, high: float, size: int) -> NDArray[np.float64]:
        return np.array([low + (high - low) * self._rng.random() for _ in range(size)])

    def normal(self, size: int) -> NDArray[np.float64]:
        """Mean 0, deviation 1."""
        return np.array([_NORMAL.inv_cdf(min(max(self._rng.random(), 1e-12), 1 - 1e-12)) for _ in range(size)])
