"""One runtime as the view stands."""

from __future__ import annotations

from dataclasses import dataclass

from balancer.routing.runtime_facts import RuntimeFacts

__all__ = ["RuntimeRow"]


@dataclass(frozen=True, slots=True)
class RuntimeRow:
    """One runtime as the view stands, for people and records."""

    facts: RuntimeFacts
    arrived_ns: int | None
    active: int
    reserved: int
    in_flight: int
    hard_limit: int
    estimate: float
    load: float
    capacity: float
    effective: float
    utilisation: float | None
    overload: int
    speed: float
    mix: float
