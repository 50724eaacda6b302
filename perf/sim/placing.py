"""Simulated sessions, and those on their way in."""

from __future__ import annotations

from dataclasses import dataclass

from balancer.routing.request import PlacementRequest
from balancer.routing.tries import Tries

__all__ = ["Placing", "Session"]


@dataclass(slots=True)
class Session:
    cost: float
    ends_s: float
    runtime: int
    life: int
    node: int


@dataclass(slots=True)
class Placing:
    """A session on its way in. `session` is set when it is moved from another runtime."""

    node: int
    cost: float
    length_s: float
    began_s: float
    tries: Tries
    request: PlacementRequest
    moved: Session | None = None
    calls: int = 0
    rounds: int = 1
