"""What stands about a runtime between two reports."""

from __future__ import annotations

from dataclasses import dataclass

from balancer.routing.version import Version
from runtime.primitives.load_snapshot import CostClass, RuntimeState

__all__ = ["RuntimeFacts"]


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """One life of one runtime, as the router knows it."""

    runtime_id: str
    incarnation: int
    state: RuntimeState = RuntimeState.STARTING
    ineligible: str = ""
    """Why nothing may be placed here whatever the report says (lost stream, silence); empty: nothing against it."""
    hard_limit: int = 0
    agents: frozenset[str] = frozenset()
    abilities: frozenset[str] = frozenset()
    region: str = ""
    version: Version = ()
    cost_class: CostClass = CostClass.OWNED
