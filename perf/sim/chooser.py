"""Who chooses: balancers with the product's router, or the ideal that sees everything."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

import numpy as np

from balancer.routing.decision import Candidate
from balancer.routing.load_rule import LoadRule
from balancer.routing.overload import FleetOverload, OverloadRule
from balancer.routing.policy import Policy
from balancer.routing.request import PlacementRequest
from perf.sim.model import Scenario
from perf.sim.node import Node
from perf.sim.world import World

__all__ = ["Chooser", "Ideal", "Routers"]


class Chooser(Protocol):
    def start(self, world: World, scenario: Scenario, rule: LoadRule, seed: int) -> list[Node]: ...

    def decide(self, node: int, request: PlacementRequest, cost: float, now_ns: int) -> list[Candidate]: ...

    def asks(self, node: int, candidate: Candidate, now_ns: int) -> None: ...

    def fair_share_per_s(self, node: int, candidate: Candidate, now_ns: int) -> float: ...

    def answered(
        self, node: int, candidate: Candidate, admitted: bool, active: int, reserved: int, measured_ns: int, now_ns: int
    ) -> tuple[float, float]:
        """Load as the decision should have found it, and how full the runtime is now (`FleetView.second_look`)."""
        ...

    def closes(self, node: int, candidate: Candidate, until_ns: int) -> None:
        """It refused for inflow, until then."""
        ...

    def released(self, node: int, candidate: Candidate) -> None: ...

    def found(self, node: int, runtime: int) -> None:
        """A session that was there before the run began."""
        ...

    def started(self, node: int, runtime: int, startup_ms: float) -> None: ...

    def ended(self, node: int, runtime: int) -> None: ...


class Routers:
    """Several balancers, each with its own view and its own policy."""

    def __init__(self, make_policy: Callable[[], Policy]) -> None:
        self._make_policy = make_policy
        self._nodes: list[Node] = []

    def start(self, world: World, scenario: Scenario, rule: LoadRule, seed: int) -> list[Node]:
        self._nodes = [Node(world, self._make_policy(), rule, 1000 * seed + n) for n in range(scenario.balancers)]
        return self._nodes

    def decide(self, node: int, request: PlacementRequest, cost: float, now_ns: int) -> list[Candidate]:
        each = self._nodes[node]
        return each.router.decide(request, each.view, now_ns, each.rng).candidates

    def asks(self, node: int, candidate: Candidate, now_ns: int) -> None:
        self._nodes[node].view.place(candidate.slot, now_ns)

    def fair_share_per_s(self, node: int, candidate: Candidate, now_ns: int) -> float:
        return self._nodes[node].view.load.fair_share_per_s(candidate.slot, now_ns)

    def answered(
        self, node: int, candidate: Candidate, admitted: bool, active: int, reserved: int, measured_ns: int, now_ns: int
    ) -> tuple[float, float]:
        each, slot = self._nodes[node], candidate.slot
        if each.life.item(slot) != candidate.incarnation:
            return 0.0, 0.0  # another life by now: its counts began anew
        view = each.view
        view.settle(slot, contained=admitted)
        if active >= 0 and measured_ns > each.newest_ns.item(slot):
            each.newest_ns[slot] = measured_ns
            view.answer(slot, active, reserved, now_ns)
        elif admitted:
            view.load.change(slot, view.columns.estimate.item(slot) + 1.0)
        return view.second_look(candidate)

    def closes(self, node: int, candidate: Candidate, until_ns: int) -> None:
        self._nodes[node].view.close(candidate.slot, until_ns)

    def released(self, node: int, candidate: Candidate) -> None:
        self._nodes[node].view.release(candidate.slot)

    def found(self, node: int, runtime: int) -> None:
        self._nodes[node].view.columns.own[runtime] += 1.0

    def started(self, node: int, runtime: int, startup_ms: float) -> None:
        self._nodes[node].view.response_times.add(runtime, startup_ms)

    def ended(self, node: int, runtime: int) -> None:
        self._nodes[node].view.end(runtime)


class Ideal:
    """One chooser with perfect knowledge of what is held, what it costs and what fits: the shortest queue. The same overload
    thresholds, no estimates, no delay."""

    def __init__(self, overload: OverloadRule | None = None) -> None:
        self._overload = FleetOverload(overload or OverloadRule())
        self._random = random.Random(0)

    def start(self, world: World, scenario: Scenario, rule: LoadRule, seed: int) -> list[Node]:
        self._world = world
        self._pending = np.zeros(scenario.machines.count)
        self._random = random.Random(seed)
        return []

    def decide(self, node: int, request: PlacementRequest, cost: float, now_ns: int) -> list[Candidate]:
        world = self._world
        serving = world.is_up & world.is_ready
        held = world.active + self._pending
        # By what it would be with one more: a session is much of a small machine.
        load = (world.cost + self._pending + 1.0) / world.capacity
        total = float(world.capacity[serving].sum())
        fleet = float((world.cost + self._pending)[serving].sum()) / total if total else 1.0
        if self._overload.refuses(request.priority, fleet):
            return []
        open_ = serving & (held + 1.0 <= world.hard_limit) & (world.cost + self._pending + 1.0 <= world.capacity)
        if not open_.any():
            return []
        load = np.where(open_, load, np.inf)
        best = np.flatnonzero(load <= load.min() + 1e-12)
        slot = int(best[int(self._random.random() * best.shape[0])])
        return [Candidate(slot, "", int(world.incarnation[slot]), float(load[slot]), float("inf"), 0.0, 0, [])]

    def asks(self, node: int, candidate: Candidate, now_ns: int) -> None:
        self._pending[candidate.slot] += 1.0

    def fair_share_per_s(self, node: int, candidate: Candidate, now_ns: int) -> float:
        return 1e6  # the ideal needs no bound: it knows

    def answered(
        self, node: int, candidate: Candidate, admitted: bool, active: int, reserved: int, measured_ns: int, now_ns: int
    ) -> tuple[float, float]:
        self._pending[candidate.slot] -= 1.0
        return 0.0, 0.0

    def closes(self, node: int, candidate: Candidate, until_ns: int) -> None:
        pass

    def released(self, node: int, candidate: Candidate) -> None:
        pass

    def found(self, node: int, runtime: int) -> None:
        pass

    def started(self, node: int, runtime: int, startup_ms: float) -> None:
        pass

    def ended(self, node: int, runtime: int) -> None:
        pass
