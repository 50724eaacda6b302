"""Callers that were planned beforehand, for a run that is made twice: with real processes and simulated."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from balancer.routing.request import Priority
from perf.sim.crowd import Caller

__all__ = ["Planned", "PlannedCrowd", "plan_of"]

_SESSIONS: Final = 60
_ARRIVALS_S: Final = 60.0
_LENGTH_S: Final = (45.0, 55.0)
"""Shortest and longest: calls of much the same length, so that it is no matter of chance who gets the long ones."""


@dataclass(frozen=True, slots=True)
class Planned:
    at_s: float
    length_s: float


def plan_of(seed: int) -> list[Planned]:
    rng = random.Random(seed)
    least, most = _LENGTH_S
    pace_s = _ARRIVALS_S / _SESSIONS
    return [Planned((number + rng.random()) * pace_s, least + rng.random() * (most - least)) for number in range(_SESSIONS)]


class PlannedCrowd:
    """The plan's callers for the simulation."""

    def __init__(self, plan: list[Planned]) -> None:
        self._plan = plan
        self._next = 0

    def already_there(self, _capacity: NDArray[np.float64]) -> Iterator[tuple[int, float, float, int]]:
        return iter(())

    def next_arrival_s(self, _now_s: float) -> float:
        return self._plan[self._next].at_s if self._next < len(self._plan) else math.inf

    def caller(self) -> Caller:
        planned = self._plan[self._next]
        self._next += 1
        return Caller(0, 1.0, planned.length_s, Priority.NORMAL)
