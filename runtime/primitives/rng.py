"""Chance as an argument: the generator protocol that pure rooms are given, and the real one."""

from __future__ import annotations

import random
from typing import Protocol

__all__ = ["Rng", "SeededRng"]


class Rng(Protocol):
    """A source of uniform draws."""

    def random(self) -> float:
        """A float in [0, 1)."""
        ...


class SeededRng:
    """Mersenne twister; the same seed gives the same draws. `None` seeds from the system."""

    __slots__ = ("_random",)

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)

    def random(self) -> float:
        return self._random.random()
