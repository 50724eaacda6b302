"""Overload of a runtime: a level for each priority, two thresholds each, steady between and when nothing is known."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from balancer.capacity.overload import OVERLOAD_OFF_BELOW, OVERLOAD_ON_ABOVE, SATURATED, open_to, overload_levels


def levels(loads: list[float]) -> list[float]:
    level = np.zeros(1)
    seen = []
    for load in loads:
        level = overload_levels(level, np.array([load]))
        seen.append(float(level[0]))
    return seen


def test_hysteresis() -> None:  # requirement R6
    loads = [0.5, 0.8, 0.81, 0.75, 0.91, 0.85, math.nan, 0.8, 0.79, 0.7, 0.69, 1.01, 0.95, 0.89]
    assert levels(loads) == [0, 0, 1, 1, 2, 2, 2, 2, 1, 1, 0, 3, 3, 2]


@given(st.lists(st.one_of(st.just(math.nan), st.floats(0.0, 1.5)), max_size=30))
def test_each_priority_is_a_latch_of_its_own(loads: list[float]) -> None:
    closed = [False, False, False]
    expected = []
    for load in loads:
        for place, (above, below) in enumerate(zip(OVERLOAD_ON_ABOVE, OVERLOAD_OFF_BELOW, strict=True)):
            if load > above:
                closed[place] = True
            elif load < below:
                closed[place] = False
        expected.append(float(sum(closed)))
    assert levels(loads) == expected


def _open(hot: int, cool: int, utilisation: float = 0.92, serving: int | None = None) -> list[bool]:
    level = np.array([2.0] * hot + [0.0] * cool)
    size = hot + cool
    serves = np.arange(size) < (size if serving is None else serving)
    return [bool(each) for each in open_to(level, np.array([utilisation] * hot + [0.5] * cool), serves, 2)]


def test_a_few_hot_runtimes_get_nothing_new() -> None:
    assert _open(4, 6) == [False] * 4 + [True] * 6
    assert _open(5, 5) == [False] * 5 + [True] * 5  # half is not most


def test_when_most_of_a_crowd_is_hot_all_take_part_but_the_saturated() -> None:
    assert _open(6, 4) == [True] * 10
    assert _open(6, 4, SATURATED) == [False] * 6 + [True] * 4
    assert _open(6, 4, math.nan) == [False] * 6 + [True] * 4  # unknown is not idle


def test_in_a_small_fleet_each_runtime_answers_for_itself() -> None:
    assert _open(6, 1) == [False] * 6 + [True]
    assert _open(1, 0) == [False]
    assert _open(9, 1, serving=7) == [False] * 9 + [True]  # those that do not serve are no crowd


def test_the_lowest_priority_never_gets_what_a_higher_one_does_not() -> None:
    level, utilisation = np.array([1.0] * 6 + [2.0] * 2 + [0.0] * 2), np.array([0.85] * 6 + [0.95] * 2 + [0.5] * 2)
    serves = np.full(10, True)
    low, normal, high = (open_to(level, utilisation, serves, closed_from) for closed_from in (1, 2, 3))
    assert not (low & ~normal).any()
    assert not (normal & ~high).any()
    assert low.tolist() == [True] * 6 + [False] * 2 + [True] * 2
