"""The clockwork: arrivals, reservations, starts, ends, reports and disturbances in order of time. No sleeping, one seed."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from balancer.routing.decision import Candidate
from balancer.routing.load_rule import LoadRule
from balancer.routing.reports import Reports
from balancer.routing.request import PlacementRequest, Priority
from balancer.routing.tries import Step, Tries
from perf.sim.chooser import Chooser
from perf.sim.crowd import Calling, Crowd
from perf.sim.measures import Measures
from perf.sim.model import Scenario
from perf.sim.placing import Placing, Session
from perf.sim.world import TICKS_PER_S, World
from runtime.primitives.clock import NS_PER_MS, NS_PER_S

__all__ = ["Simulation"]

Slots = NDArray[np.intp]

_LONGEST_TICK_S = 1.0
"""Reports are gathered over so long: a tenth of the interval at most."""
_ROUNDS = 2
"""Decisions a placement, as the placer has."""


class Simulation:
    """One run of one scenario with one way to choose."""

    def __init__(self, scenario: Scenario, chooser: Chooser, rule: LoadRule, seed: int, crowd: Calling | None = None) -> None:
        self.scenario = scenario
        self.chooser = chooser
        self.crowd: Calling = crowd or Crowd(scenario, seed)
        self._wire = random.Random(seed + 1_000_003)
        numbers = np.random.default_rng(seed)
        self.world = World(scenario, rule.capacity, rule.z, numbers)
        self.measures = Measures(scenario, self.world)
        self.now_s = 0.0
        self._numbers = np.random.default_rng(seed + 1_000_003)
        self._heap: list[tuple[float, int, Any, tuple[Any, ...]]] = []
        self._count = itertools.count()
        size = scenario.machines.count
        self._report_tick_s = min(_LONGEST_TICK_S, scenario.network.report_interval_s / 10.0)
        self._report_ticks = round(scenario.network.report_interval_s / self._report_tick_s)
        self._phase = numbers.integers(0, self._report_ticks, size)
        self._by_phase = [np.flatnonzero(self._phase == tick) for tick in range(self._report_ticks)]
        self._live: list[set[int]] = [set() for _ in range(size)]
        self._sessions: dict[int, Session] = {}
        self._paused_until = np.zeros(size)
        self.nodes = chooser.start(self.world, scenario, rule, seed)

    @property
    def now_ns(self) -> int:
        return int(self.now_s * NS_PER_S)

    def run(self) -> Measures:
        scenario = self.scenario
        self._populate()
        self._at(0.0, self._world_tick)
        self._at(0.0, self._report, np.arange(scenario.machines.count))  # who enrolls reports at once
        self._at(0.0, self._report_tick, 0)
        self._at(self.crowd.next_arrival_s(self.now_s), self._arrive)
        for each in scenario.disturbances:
            self._at(scenario.warm_up_s + each.at_s, self._disturb, each)
        end_s = scenario.length_s
        heap = self._heap
        while heap and heap[0][0] <= end_s:
            self.now_s, _, action, arguments = heapq.heappop(heap)
            action(*arguments)
        self.measures.close()
        return self.measures

    def _at(self, when_s: float, action: Any, *arguments: Any) -> None:
        heapq.heappush(self._heap, (when_s, next(self._count), action, arguments))

    # Callers

    def _populate(self) -> None:
        for runtime, left_s, cost, node in self.crowd.already_there(self.world.capacity):
            self._enter(runtime, cost, left_s, node, quietly=True)

    def _arrive(self) -> None:
        caller = self.crowd.caller()
        self._at(self.crowd.next_arrival_s(self.now_s), self._arrive)
        self._place(caller.node, caller.cost, caller.length_s, caller.priority, None)

    # Placement

    def _place(self, node: int, cost: float, length_s: float, priority: Priority, moved: Session | None) -> None:
        request = PlacementRequest(str(next(self._count)), priority=priority)
        candidates = self.chooser.decide(node, request, cost, self.now_ns)
        placing = Placing(node, cost, length_s, self.now_s, Tries(candidates), request, moved)
        self._follow(placing, placing.tries.first())

    def _follow(self, placing: Placing, step: Step) -> None:
        if step.release is not None:
            self._release(placing.node, step.release)
        if step.take is not None:
            self._start(placing, step.take)
        elif step.ask is not None:
            placing.calls += 1
            self.chooser.asks(placing.node, step.ask, self.now_ns)
            self._at(self.now_s + self.scenario.network.round_trip_s / 2.0, self._reserve, placing, step.ask)
        elif placing.calls and placing.rounds < _ROUNDS:
            placing.rounds += 1
            candidates = self.chooser.decide(placing.node, placing.request, placing.cost, self.now_ns)
            placing.tries = Tries(candidates)
            self._follow(placing, placing.tries.first() if candidates else Step())
        elif placing.moved is not None:
            self.measures.dropped(self.now_s)
        else:
            self.measures.refused(self.now_s, placing.calls)

    def _reserve(self, placing: Placing, candidate: Candidate) -> None:
        """At the runtime."""
        world, runtime = self.world, candidate.slot
        admitted, wait_ms = False, 0
        if (
            world.is_up.item(runtime)
            and world.is_ready.item(runtime)
            and candidate.incarnation == world.incarnation.item(runtime)
        ):
            if world.active.item(runtime) + world.reserved.item(runtime) < world.hard_limit.item(runtime):
                bucket = world.buckets[runtime]
                if placing.moved is not None:
                    admitted = True
                else:
                    bucket.set_fair_share(self.chooser.fair_share_per_s(placing.node, candidate, self.now_ns), self.now_ns)
                    admitted = bucket.take(self.now_ns)
                    wait_ms = 0 if admitted else bucket.wait_ms()
            if admitted:
                world.reserved[runtime] += 1.0
            answer = (admitted, int(world.active.item(runtime)), int(world.reserved.item(runtime)), self.now_ns)
        else:
            answer = (False, -1, -1, self.now_ns)
        if wait_ms:
            self.chooser.closes(placing.node, candidate, self.now_ns + wait_ms * NS_PER_MS)
        self._at(self.now_s + self.scenario.network.round_trip_s / 2.0, self._answered, placing, candidate, *answer)

    def _answered(
        self, placing: Placing, candidate: Candidate, admitted: bool, active: int, reserved: int, measured_ns: int
    ) -> None:
        load, fullness = self.chooser.answered(placing.node, candidate, admitted, active, reserved, measured_ns, self.now_ns)
        alive = candidate.incarnation == self.world.incarnation.item(candidate.slot) and self.world.is_up.item(candidate.slot)
        step = placing.tries.admitted(candidate, load, fullness) if admitted and alive else placing.tries.refused()
        self._follow(placing, step)

    def _release(self, node: int, candidate: Candidate) -> None:
        if candidate.incarnation == self.world.incarnation.item(candidate.slot):
            self.world.reserved[candidate.slot] -= 1.0
            self.chooser.released(node, candidate)

    def _start(self, placing: Placing, candidate: Candidate) -> None:
        world, runtime = self.world, candidate.slot
        if candidate.incarnation != world.incarnation.item(runtime) or not world.is_up.item(runtime):
            self.measures.refused(self.now_s, placing.calls)  # it died with our place
            return
        world.reserved[runtime] -= 1.0
        startup_s = self.now_s - placing.began_s + world.startup_s(runtime)
        if placing.moved is None:
            self.measures.started(self.now_s, runtime, startup_s, placing.calls)
            self.chooser.started(placing.node, runtime, 1000.0 * startup_s)
        self._enter(runtime, placing.cost, placing.length_s, placing.node, quietly=False)

    def _enter(self, runtime: int, cost: float, length_s: float, node: int, *, quietly: bool) -> None:
        number = next(self._count)
        life = int(self.world.incarnation[runtime])
        self._sessions[number] = Session(cost, self.now_s + length_s, runtime, life, node)
        self._live[runtime].add(number)
        self.world.enter(runtime, cost)
        if quietly:
            self.world.started[runtime] -= 1.0
            self.world.recent_starts[runtime] -= 1.0
            self.chooser.found(node, runtime)
        self._at(self.now_s + length_s, self._end, number)

    def _end(self, number: int) -> None:
        session = self._sessions.pop(number, None)
        if session is None:
            return
        self._live[session.runtime].discard(number)
        self.world.leave(session.runtime, session.cost)
        self.chooser.ended(session.node, session.runtime)

    # Time

    def _world_tick(self) -> None:
        self.world.tick(self.now_s - self.scenario.warm_up_s)
        self.measures.tick(self.now_s, [node.view.columns.estimate for node in self.nodes])
        self._at(self.now_s + 1.0 / TICKS_PER_S, self._world_tick)

    def _report_tick(self, tick: int) -> None:
        self._at(self.now_s + self._report_tick_s, self._report_tick, tick + 1)
        self._report(self._by_phase[tick % self._report_ticks])

    def _report(self, slots: Slots) -> None:
        if not self.nodes or not slots.size:
            return
        world, network = self.world, self.scenario.network
        slots = slots[world.is_up[slots] & (self._paused_until[slots] <= self.now_s)]
        if not slots.size:
            return
        utilisation = world.reported_utilisation()[slots]
        if network.garbage:
            utilisation = np.where(self._numbers.random(slots.shape[0]) < network.garbage, math.nan, utilisation)
        batch = Reports(
            slots=slots,
            active=world.active[slots],
            reserved=world.reserved[slots],
            hard_limit=world.hard_limit[slots],
            utilisation=utilisation,
            started_total=world.started[slots],
            ended_total=world.ended[slots],
            startup_ms=1000.0 * world.scenario.machines.startup_s / np.maximum(0.05, 1.0 - world.utilisation[slots]),
        )
        lives = world.incarnation[slots].copy()
        for node in range(len(self.nodes)):
            self._send(node, batch, lives)
            if network.duplicates and self._wire.random() < network.duplicates:
                self._send(node, batch, lives)

    def _send(self, node: int, batch: Reports, lives: Any) -> None:
        network = self.scenario.network
        if network.loss:
            kept = np.asarray(self._numbers.random(batch.slots.shape[0]) >= network.loss)
            batch = batch.only(kept)
            lives = lives[kept]
        delay_s = network.report_delay_s + network.report_jitter_s * self._wire.random()
        self._at(self.now_s + delay_s, self._deliver, node, batch, self.now_ns, lives)

    def _deliver(self, node: int, batch: Reports, measured_ns: int, lives: Any) -> None:
        measured = np.full(batch.slots.shape[0], measured_ns, np.int64)
        self.nodes[node].take(batch, measured, lives, self.now_ns)

    # Disturbances

    def _disturb(self, what: Any) -> None:
        world, runtime = self.world, what.runtime
        match what.kind:
            case "restart" | "deploy":
                world.is_ready[runtime] = False
                world.is_up[runtime] = what.kind == "deploy"
                self._tell(runtime)
                moved = [self._sessions[number] for number in sorted(self._live[runtime])]
                for number in list(self._live[runtime]):
                    self._end(number)
                if what.kind == "restart":
                    self.measures.dropped(self.now_s, len(moved))
                else:
                    for session in moved:
                        self._place(session.node, session.cost, session.ends_s - self.now_s, Priority.HIGH, session)
                self._at(self.now_s + what.length_s, self._back, runtime)
            case "flap":
                world.is_ready[runtime] = False
                self._tell(runtime)
                self._at(self.now_s + what.length_s, self._ready_again, runtime)
            case "pause":
                self._paused_until[runtime] = self.now_s + what.length_s

    def _back(self, runtime: int) -> None:
        self.world.restart(runtime, self.now_ns)
        self.measures.restarted(self.now_s, runtime)
        self._tell(runtime)
        self._report(np.array([runtime]))

    def _ready_again(self, runtime: int) -> None:
        self.world.is_ready[runtime] = True
        self._tell(runtime)

    def _tell(self, runtime: int) -> None:
        """The control stream says it at once."""
        for node in self.nodes:
            node.admit(self.world, runtime)
