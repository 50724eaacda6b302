"""Water over a fleet: it fills the emptiest first, all of it finds room, and more of it stands higher."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.capacity import water_level
from balancer.capacity.water_level import pour

rows = st.lists(st.tuples(st.floats(0.0, 100.0), st.floats(0.5, 100.0)), min_size=1, max_size=30)
volumes = st.floats(0.01, 500.0)


def columns(pairs: list[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    load, capacity = zip(*pairs, strict=True)
    return np.array(load), np.array(capacity)


def test_the_examples_hold() -> None:
    assert doctest.testmod(water_level).failed == 0


@given(rows, volumes)
def test_all_of_it_finds_room_below_the_ceiling(pairs: list[tuple[float, float]], volume: float) -> None:
    load, capacity = columns(pairs)
    level, gaps = pour(load, capacity, volume, ceiling=float("inf"))
    assert gaps.sum() == pytest.approx(volume, rel=1e-6, abs=1e-6)
    assert (gaps >= 0.0).all()
    np.testing.assert_allclose((load + gaps)[gaps > 1e-9], (level * capacity)[gaps > 1e-9], rtol=1e-9, atol=1e-9)
    assert ((load / capacity)[gaps <= 1e-9] >= level - 1e-6).all()  # who gets nothing is above


@given(rows, volumes, volumes)
def test_more_water_stands_no_lower_and_never_above_the_ceiling(
    pairs: list[tuple[float, float]], one: float, more: float
) -> None:
    load, capacity = columns(pairs)
    low, _ = pour(load, capacity, one)
    high, gaps = pour(load, capacity, one + more)
    assert low <= high + 1e-12
    assert high <= 1.0
    assert (load + gaps <= np.maximum(load, capacity) + 1e-9).all()


@given(rows, volumes, st.integers(0, 29), st.floats(0.0, 50.0))
def test_a_fuller_runtime_gets_no_more(pairs: list[tuple[float, float]], volume: float, which: int, more: float) -> None:
    load, capacity = columns(pairs)
    which %= load.shape[0]
    _, before = pour(load, capacity, volume)
    fuller = load.copy()
    fuller[which] += more
    _, after = pour(fuller, capacity, volume)
    assert after[which] <= before[which] + 1e-9


@given(rows, volumes, st.randoms())
def test_the_order_of_runtimes_does_not_matter(pairs: list[tuple[float, float]], volume: float, chance: object) -> None:
    load, capacity = columns(pairs)
    order = np.arange(load.shape[0])[::-1]
    level, gaps = pour(load, capacity, volume)
    other_level, other = pour(load[order], capacity[order], volume)
    assert other_level == pytest.approx(level, rel=1e-9)
    np.testing.assert_allclose(other[order], gaps, rtol=1e-6, atol=1e-6)
