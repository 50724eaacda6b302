"""Any runtime that the filters left, all equally likely. Its name in settings is `random`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from balancer.routing.draw import draw_distinct
from balancer.routing.fleet_view import FleetView
from runtime.primitives.rng import Rng

__all__ = ["UniformRandom"]


@dataclass(frozen=True, slots=True)
class UniformRandom:
    name: str = "random"
    caps_by_effective_capacity: bool = False
    claim: str = "drawn by chance"

    def order(self, _view: FleetView, kept: NDArray[np.intp], count: int, rng: Rng) -> list[int]:
        return draw_distinct(kept, count, rng)

    def score(self, _view: FleetView, _index: int) -> float:
        return 0.0
