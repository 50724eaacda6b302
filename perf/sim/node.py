"""One simulated balancer: the product's own view and router, fed with what would reach it over the wire."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from balancer.routing.fleet_view import FleetView
from balancer.routing.load_rule import LoadRule
from balancer.routing.policy import Policy
from balancer.routing.reports import Reports
from balancer.routing.router import Router
from balancer.routing.runtime_facts import RuntimeFacts
from perf.sim.world import World
from runtime.primitives.clock import NS_PER_S
from runtime.primitives.load_snapshot import RuntimeState
from runtime.primitives.rng import SeededRng

__all__ = ["Node"]

Floats = NDArray[np.float64]
Slots = NDArray[np.intp]


class Node:
    """Slots are the world's runtime numbers."""

    def __init__(self, world: World, policy: Policy, rule: LoadRule, seed: int) -> None:
        size = world.active.shape[0]
        self.view = FleetView(rule, size)
        self.router = Router(policy, int(max(10.0 * rule.report_interval_s, 10.0) * NS_PER_S))
        self.rng = SeededRng(seed)
        self.newest_ns = np.full(size, -(2**62), np.int64)
        """When the newest load that was taken was measured, per runtime."""
        self.life = np.ones(size, np.int64)
        for number in range(size):
            self.admit(world, number)

    def admit(self, world: World, number: int) -> None:
        """The runtime enrolled, or what stands about it changed."""
        state = RuntimeState.READY if world.is_ready[number] else RuntimeState.DRAINING
        ineligible = "" if world.is_up[number] else "its enrol stream is lost"
        facts = RuntimeFacts(f"r{number:05d}", int(world.incarnation[number]), state, ineligible, int(world.hard_limit[number]))
        slot = self.view.put(facts)
        assert slot == number, "the simulator relies on slots in order"
        if world.incarnation[number] != self.life[number]:
            self.life[number] = world.incarnation[number]
            self.newest_ns[number] = -(2**62)

    def take(self, batch: Reports, measured_ns: NDArray[np.int64], lives: NDArray[np.int64], now_ns: int) -> None:
        """Reports off the wire: late, repeated or reordered ones and those of past lives are no news."""
        slots = batch.slots
        newer = (measured_ns > self.newest_ns[slots]) & (lives == self.life[slots])
        if not newer.any():
            return
        if not newer.all():
            batch = batch.only(newer)
            measured_ns = measured_ns[newer]
        self.newest_ns[batch.slots] = measured_ns
        self.view.report(batch, now_ns)
