"""The plan that both the real and the simulated run follow."""

from __future__ import annotations

from perf.sim.agreement import Costs, simulate
from perf.sim.planned import plan_of


def test_the_plan_is_fixed_by_its_seed_and_the_simulation_follows_it() -> None:
    plan = plan_of(1)
    assert plan == plan_of(1) != plan_of(2)
    assert [each.at_s for each in plan] == sorted(each.at_s for each in plan)
    assert all(45.0 <= each.length_s <= 55.0 for each in plan)
    found = simulate(plan, Costs(0.015, 0.015, 0.02), down_s=10.0, seed=1)
    assert found.started + found.refused == 60
    assert abs(sum(found.shares) - 1.0) < 1e-9
    assert found.shares[1] < min(found.shares[0], found.shares[2])  # it was killed
    dear = simulate(plan, Costs(0.015, 0.03, 0.02), down_s=10.0, seed=1)
    assert dear.mean_cpu > 1.5 * found.mean_cpu
