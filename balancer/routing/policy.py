"""The seam between the router and the ways to choose: a policy orders what the filters left."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from balancer.routing.fleet_view import FleetView
from runtime.primitives.rng import Rng

__all__ = ["Policy"]


class Policy(Protocol):
    @property
    def name(self) -> str:
        """Its name in settings and records."""
        ...

    @property
    def caps_by_effective_capacity(self) -> bool:
        """Whether the headroom filter applies; the hard limit always does."""
        ...

    @property
    def claim(self) -> str:
        """How its first choice is explained, as in "least loaded"."""
        ...

    def order(self, view: FleetView, kept: NDArray[np.intp], count: int, rng: Rng, /) -> list[int]:
        """At most `count` distinct rows out of `kept` (never empty, ascending), best first."""
        ...

    def score(self, view: FleetView, index: int, /) -> float:
        """What the order is by, for the record; lower is better."""
        ...
