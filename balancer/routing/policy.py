"""The seam between the router and the ways to choose: a policy orders what the filters left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from balancer.routing.fleet_view import FleetView
from balancer.routing.pool import Pool
from balancer.routing.request import PlacementRequest
from runtime.primitives.rng import Rng

__all__ = ["Choice", "Policy", "Question"]


@dataclass(slots=True)
class Question:
    """What a policy is asked: at most `count` distinct slots out of `pool` (never empty), best first."""

    view: FleetView
    pool: Pool
    request: PlacementRequest
    count: int
    now_ns: int


@dataclass(slots=True)
class Choice:
    """`score`: what the order is by, lower is better. `enough`: a runtime whose fresh load is at or below this needs no
    second look; infinite: the policy asks for none."""

    slot: int
    score: float
    enough: float = float("inf")


class Policy(Protocol):
    @property
    def name(self) -> str:
        """Its name in settings and records."""
        ...

    @property
    def claim(self) -> str:
        """How its first choice is explained, as in "least loaded"."""
        ...

    @property
    def uses_capacity(self) -> bool:
        """Whether learned capacity bounds it (headroom filter, overload of the fleet); the hard limit always does."""
        ...

    def order(self, question: Question, rng: Rng, /) -> list[Choice]: ...
