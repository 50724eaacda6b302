"""Fleets as values, for the tests of the pure rooms: views that were told one report each."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from balancer.capacity.effective_capacity import CapacityRule
from balancer.routing.decision import Decision
from balancer.routing.fleet_view import FleetView
from balancer.routing.load_rule import LoadRule
from balancer.routing.policies import POLICIES
from balancer.routing.reports import Reports
from balancer.routing.request import PlacementRequest
from balancer.routing.router import Router
from balancer.routing.runtime_facts import RuntimeFacts
from runtime.primitives.clock import NS_PER_S
from runtime.primitives.load_snapshot import RuntimeState
from runtime.primitives.rng import SeededRng

NOW = 100 * NS_PER_S
ASK = PlacementRequest(session_id="call")
RULE = LoadRule(CapacityRule(cold_allowance=100_000))
"""Capacity is the hard limit unless a test says otherwise: nothing is learned from one report."""


@dataclass(frozen=True)
class Told:
    """What is known of one runtime."""

    name: str
    state: RuntimeState = RuntimeState.READY
    ineligible: str = ""
    arrived_ns: int | None = NOW - 4 * NS_PER_S // 10
    active: int = 0
    reserved: int = 0
    in_flight: int = 0
    hard_limit: int = 8
    utilisation: float | None = 0.2
    overload: int = 0
    context_window: int = 0
    agents: frozenset[str] = field(default_factory=lambda: frozenset({"desk"}))
    abilities: frozenset[str] = field(default_factory=lambda: frozenset({"book", "tools"}))
    region: str = "eu"
    version: tuple[int, ...] = (1, 2)
    startup_ms: float = 0.0

    def but(self, **changes: object) -> Told:
        return replace(self, **changes)  # type: ignore[arg-type]  # the fields of this class

    def tell(self, view: FleetView) -> int:
        facts = RuntimeFacts(
            self.name, 1, self.state, self.ineligible, self.hard_limit, self.agents, self.abilities, self.region, self.version
        )
        slot = view.put(facts)
        if self.arrived_ns is not None:

            def one(value: float) -> np.ndarray:
                return np.array([value], np.float64)

            view.report(
                Reports(
                    np.array([slot]),
                    one(self.active),
                    one(self.reserved),
                    one(self.hard_limit),
                    one(math.nan if self.utilisation is None else self.utilisation),
                    one(self.active),
                    one(0.0),
                    one(self.startup_ms),
                    context_window=one(self.context_window),
                ),
                self.arrived_ns,
                one(self.active + self.reserved),
            )
        for _ in range(self.in_flight):
            view.place(slot, NOW)
        view.columns.overload[slot] = self.overload
        view.load.flips += 1
        return slot


def fleet(*told: Told, rule: LoadRule = RULE) -> FleetView:
    view = FleetView(rule)
    for each in told:
        each.tell(view)
    return view


def router(policy: str = "session_aware") -> Router:
    return Router(POLICIES[policy](), max_report_age_ns=3 * NS_PER_S)


def decide(view: FleetView, request: PlacementRequest = ASK, policy: str = "session_aware", seed: int = 1) -> Decision:
    return router(policy).decide(request, view, NOW, SeededRng(seed))


def names(decision: Decision) -> list[str]:
    return [each.runtime_id for each in decision.candidates]
