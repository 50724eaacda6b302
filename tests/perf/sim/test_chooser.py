"""The ideal that all others are held against."""

from __future__ import annotations

import numpy as np

from balancer.capacity.effective_capacity import CapacityRule
from balancer.routing.load_rule import LoadRule
from balancer.routing.request import PlacementRequest
from perf.sim.chooser import Ideal
from perf.sim.model import Machines, Scenario
from perf.sim.world import World


def test_of_equally_full_machines_it_takes_the_one_to_which_a_session_is_less() -> None:
    scenario = Scenario("test", "", machines=Machines(count=2, slownesses=(4.0, 1.0)))
    world = World(scenario, CapacityRule(), 1.0, np.random.default_rng(1))
    ideal = Ideal()
    ideal.start(world, scenario, LoadRule(), 1)
    world.cost[:] = 0.5 * world.capacity
    assert {ideal.decide(0, PlacementRequest("call"), 1.0, 0)[0].slot for _ in range(20)} == {1}
