"""The default policy, first version: room by effective capacity, order by how full.

estimate = active + reserved + own in flight; a runtime has room while E - estimate >= 1 (R1's E as an absolute allowance, never
as a weight: E contains the sessions, so as a weight it would favour the fuller). Among those with room the order is by
estimate / capacity, capacity being the hard limit; equals are drawn by chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from balancer.routing.draw import lowest_first
from balancer.routing.fleet_view import FleetView
from runtime.primitives.rng import Rng

__all__ = ["SessionAware"]


@dataclass(frozen=True, slots=True)
class SessionAware:
    name: str = "session_aware"
    caps_by_effective_capacity: bool = True
    claim: str = "least loaded"

    def order(self, view: FleetView, kept: NDArray[np.intp], count: int, rng: Rng) -> list[int]:
        columns = view.columns
        return lowest_first(columns.estimate[kept] / columns.hard_limit[kept], kept, count, rng)

    def score(self, view: FleetView, index: int) -> float:
        return float(view.columns.estimate[index] / view.columns.hard_limit[index])
