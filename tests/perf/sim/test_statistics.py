"""Intervals and what theory says."""

from __future__ import annotations

import math
import statistics

import pytest

from perf.sim.goals import goals_of
from perf.sim.matrix import Cell
from perf.sim.model import Machines, Scenario
from perf.sim.scenarios import scenario
from perf.sim.statistics import Estimate, expected_maximum, over_seeds, random_expectation, report_floor


def test_the_interval_is_students() -> None:
    found = over_seeds([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.half_width == pytest.approx(4.303 / math.sqrt(3))
    for count, quantile in ((12, 2.2010), (21, 2.0860), (61, 2.0003)):  # beyond the table
        values = [float(number) for number in range(count)]
        width = quantile * statistics.stdev(values) / math.sqrt(count)
        assert over_seeds(values).half_width == pytest.approx(width, rel=2e-4)
    assert math.isnan(over_seeds([5.0]).half_width)
    assert math.isnan(over_seeds([]).mean)


def test_the_largest_of_a_thousand_normals() -> None:
    assert expected_maximum(1000) == pytest.approx(3.24, abs=0.02)


def test_what_theory_says_of_a_thousand_runtimes() -> None:
    made = Scenario("s", "", machines=Machines(count=1000), sessions_each=50.0)
    assert random_expectation(made) == pytest.approx(1.46, abs=0.02)
    assert report_floor(made) == pytest.approx(1.11, abs=0.01)


def cell(policy: str, **values: float) -> Cell:
    usual = {
        "max_over_mean": 1.03, "overload_rate": 0.0, "late_share": 0.0, "refused": 0.0, "startup_p99_ms": 100.0, "dropped": 0.0,
        "inflow_peak": 1.0,
    }  # fmt: skip
    return Cell("steady", policy, 3, {name: Estimate(value, 0.5) for name, value in {**usual, **values}.items()})


def test_a_missed_goal_is_missed() -> None:
    made = scenario("steady")
    good = goals_of(made, [cell("ideal", max_over_mean=1.02), cell("session_aware"), cell("random")])
    assert all(goal.is_met for goal in good)
    uneven = goals_of(made, [cell("ideal", max_over_mean=1.02), cell("session_aware", max_over_mean=1.07), cell("random")])
    assert [goal.name for goal in uneven if not goal.is_met] == ["steady: max/mean"]
    slow = goals_of(made, [cell("ideal"), cell("session_aware", startup_p99_ms=200.0), cell("random")])
    assert ["startup_p99_ms" in goal.name for goal in slow if not goal.is_met] == [True]
    assert goals_of(made, [cell("random")]) == []
