"""In turn, by runtime id, whoever the filters left. The turn starts at a random place, so that balancers do not walk in step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from balancer.routing.fleet_view import FleetView
from runtime.primitives.rng import Rng

__all__ = ["RoundRobin"]


class RoundRobin:
    """Remembers the id it gave last, not a position: rows move when runtimes come and go. O(n log n) a decision."""

    name = "round_robin"
    caps_by_effective_capacity = False
    claim = "next in turn"

    def __init__(self) -> None:
        self._last: str | None = None

    def order(self, view: FleetView, kept: NDArray[np.intp], count: int, rng: Rng) -> list[int]:
        by_id = sorted((view.row(int(index)).runtime_id, int(index)) for index in kept)
        if self._last is None:
            start = int(rng.random() * len(by_id))
        else:
            start = next((place for place, (runtime_id, _) in enumerate(by_id) if runtime_id > self._last), 0)
        turned = by_id[start:] + by_id[:start]
        self._last = turned[0][0]
        return [index for _, index in turned[:count]]

    def score(self, _view: FleetView, _index: int) -> float:
        return 0.0
