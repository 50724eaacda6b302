"""Fewest reported active sessions first, in-flight placements and capacity unseen: the naive rival, for comparison."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from balancer.routing.draw import lowest_first
from balancer.routing.fleet_view import FleetView
from runtime.primitives.rng import Rng

__all__ = ["LeastSessions"]


@dataclass(frozen=True, slots=True)
class LeastSessions:
    name: str = "least_sessions"
    caps_by_effective_capacity: bool = False
    claim: str = "fewest reported sessions"

    def order(self, view: FleetView, kept: NDArray[np.intp], count: int, rng: Rng) -> list[int]:
        return lowest_first(view.columns.active[kept], kept, count, rng)

    def score(self, view: FleetView, index: int) -> float:
        return float(view.columns.active[index])
