"""The simulated truth keeps its books, and its chance has the mean and spread that the model states."""

from __future__ import annotations

import numpy as np
import pytest

from balancer.capacity.effective_capacity import CapacityRule
from perf.sim.model import Callers, Machines, Network, Scenario
from perf.sim.world import World


def world(**changes: object) -> World:
    scenario = Scenario("test", "", machines=Machines(count=200), **changes)  # type: ignore[arg-type]  # fields of a scenario
    return World(scenario, CapacityRule(), 1.0, np.random.default_rng(1))


def test_who_enters_and_leaves_is_counted() -> None:
    made = world()
    for cost in (1.0, 2.0):
        made.enter(3, cost)
    made.leave(3, 1.0)
    assert (made.active[3], made.cost[3], made.started[3], made.ended[3]) == (1.0, 2.0, 2.0, 1.0)
    made.restart(3, 0)
    assert (made.active[3], made.cost[3], made.started[3], made.incarnation[3]) == (0.0, 0.0, 0.0, 2)


def test_cpu_has_the_stated_mean_and_the_window_the_stated_spread() -> None:
    made = world()
    for runtime in range(200):
        for _ in range(40):
            made.enter(runtime, 1.0)
    means = []
    for second in range(60):
        made.tick(float(second))
        means.append(float(made.utilisation.mean()))
    assert np.mean(means) == pytest.approx(made.committed_utilisation(0), rel=0.01)
    sessions = (made.utilisation - 0.02) / (0.0115 + 0.00002 * 40) / 40
    assert float(sessions.std() * 40**0.5) == pytest.approx(Callers().talk_variance ** 0.5, rel=0.15)
    # A window of ten seconds averages 10 / (2 * 0.615) independent moments.
    windows = []
    for second in range(60, 360):
        made.tick(float(second))
        if second % 10 == 9:
            windows.append(made.reported_utilisation())
    averaged = Network().window_s / (2.0 * Callers().talk_correlation_s)
    assert float(np.var(windows)) * averaged == pytest.approx(float(np.var(made.utilisation)), rel=0.25)


def test_capacity_leaves_room_for_talk_and_a_slow_machine_has_less() -> None:
    quick, slow = world(), world()
    assert 40 < quick.capacity[0] < 62
    slow = World(
        Scenario("t", "", machines=Machines(count=2, slownesses=(1.0, 4.0)), network=Network()),
        CapacityRule(),
        1.0,
        np.random.default_rng(1),
    )
    assert 3.9 < slow.capacity[0] / slow.capacity[1] < 4.6
