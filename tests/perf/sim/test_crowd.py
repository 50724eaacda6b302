"""Callers have the lengths, rates, costs and balancers that the scenario states, and the same seed is the same crowd."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perf.sim.crowd import Crowd
from perf.sim.model import Callers, Machines, Scenario

MADE = Scenario(
    "test",
    "",
    machines=Machines(count=50),
    callers=Callers(costs=((1.0, 0.5), (4.0, 0.5)), low_priority=0.25),
    traffic=(3.0, 1.0),
)


def test_lengths_costs_balancers_and_priorities() -> None:
    crowd = Crowd(MADE, 1)
    callers = [crowd.caller() for _ in range(20_000)]
    lengths = np.array([each.length_s for each in callers])
    assert lengths.mean() == pytest.approx(180.0, rel=0.05)
    assert lengths.std() == pytest.approx(240.0, rel=0.25)
    costs = np.array([each.cost for each in callers])
    assert costs.mean() == pytest.approx(1.0, rel=0.02)
    assert set(np.round(costs, 3)) == {0.4, 1.6}
    assert np.mean([each.node == 0 for each in callers]) == pytest.approx(0.75, abs=0.02)
    assert np.mean([each.priority.value == "low" for each in callers]) == pytest.approx(0.25, abs=0.02)


def test_arrivals_follow_the_profile() -> None:
    doubled = replace(MADE, arrivals=lambda at_s: 2.0 if at_s > 0.0 else 1.0, most_arrivals=2.0, warm_up_s=1000.0)
    crowd, now_s, before, after = Crowd(doubled, 1), 0.0, 0, 0
    while now_s < 2000.0:
        now_s = crowd.next_arrival_s(now_s)
        before, after = before + (now_s <= 1000.0), after + (now_s > 1000.0)
    assert before == pytest.approx(1000.0 * doubled.usual_rate_per_s, rel=0.05)
    assert after == pytest.approx(2 * before, rel=0.05)


def test_those_already_there_are_dealt_by_capacity() -> None:
    capacity = np.array([10.0] * 25 + [30.0] * 25)
    there = list(Crowd(MADE, 1).already_there(capacity))
    held = np.bincount([runtime for runtime, _, _, _ in there], minlength=50)
    assert held.sum() == len(there) == 2000
    assert set(held[:25]) == {20}
    assert set(held[25:]) == {60}
    # Met by chance, a session has E[S^2] / 2E[S] = 250 s before it.
    assert np.mean([left_s for _, left_s, _, _ in there]) == pytest.approx(250.0, rel=0.15)


def test_the_same_seed_is_the_same_crowd() -> None:
    first, again, other = (Crowd(MADE, seed) for seed in (1, 1, 2))
    drawn = [[crowd.caller() for _ in range(50)] for crowd in (first, again, other)]
    assert drawn[0] == drawn[1] != drawn[2]
