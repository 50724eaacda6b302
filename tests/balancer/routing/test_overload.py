"""Overload of the fleet: low priority first, with hysteresis, each priority for itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.routing.overload import FleetOverload, OverloadRule
from balancer.routing.request import Priority

LOW, NORMAL, HIGH = Priority.LOW, Priority.NORMAL, Priority.HIGH


@pytest.mark.parametrize(
    ("load", "refused"),
    [
        (0.0, set()),
        (0.79, set()),
        (0.80, {LOW}),
        (0.94, {LOW}),
        (0.95, {LOW, NORMAL}),
        (1.0, {LOW, NORMAL, HIGH}),
        (3.0, set(Priority)),
    ],
)
def test_who_is_turned_away_from_which_load(load: float, refused: set[Priority]) -> None:  # requirement R6
    overload = FleetOverload(OverloadRule())
    assert {each for each in Priority if overload.refuses(each, load)} == refused


def test_who_was_turned_away_is_let_in_only_well_below() -> None:
    overload = FleetOverload(OverloadRule())
    path = [(0.94, False), (0.95, True), (0.92, True), (0.90, True), (0.899, False), (0.94, False), (0.96, True), (0.5, False)]
    assert [overload.refuses(NORMAL, load) for load, _ in path] == [refused for _, refused in path]


def test_the_latch_of_one_priority_is_not_another_s() -> None:
    overload = FleetOverload(OverloadRule())
    assert overload.refuses(LOW, 0.97)
    assert not overload.refuses(NORMAL, 0.93)
    assert overload.refuses(LOW, 0.78)


@given(st.lists(st.floats(0.0, 1.5), max_size=60))
def test_no_priority_is_refused_where_a_lower_one_is_let_in(loads: list[float]) -> None:
    overload = FleetOverload(OverloadRule())
    for load in loads:
        low, normal, high = (overload.refuses(each, load) for each in (LOW, NORMAL, HIGH))
        assert low >= normal >= high


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"low": 0.96}, "overload thresholds are 0.96, 0.95, 1.0"),
        ({"low": 0.0}, "allowed: above 0"),
        ({"high": 2.5}, "at most 2"),
        ({"normal": float("nan")}, "nan"),
        ({"hysteresis": 0.8}, "hysteresis is 0.8; allowed: 0 up to the lowest threshold 0.8"),
        ({"hysteresis": -0.1}, "hysteresis is -0.1"),
    ],
)
def test_an_impossible_rule_is_refused_with_the_numbers(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OverloadRule(**changes)
