"""Draws are distinct and fair: even, by weight, and lowest scores with broken ties."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.routing.draw import by_weight, draw_distinct, lowest
from balancer.routing.fleet_view import FleetView
from balancer.routing.policy import Question
from balancer.routing.pool import Pool
from balancer.routing.request import PlacementRequest
from runtime.primitives.rng import SeededRng


def question(size: int, count: int) -> Question:
    pool = Pool(np.arange(size), size, (), False, (0, 0), 0)
    return Question(FleetView(), pool, PlacementRequest("x"), count, 0)


@given(size=st.integers(1, 30), count=st.integers(1, 5), seed=st.integers(0, 1000))
def test_draws_are_distinct_members(size: int, count: int, seed: int) -> None:
    kept = np.arange(size) * 3
    drawn = draw_distinct(kept, count, SeededRng(seed))
    assert len(drawn) == len(set(drawn)) == min(size, count)
    assert set(drawn) <= set(kept.tolist())


def test_every_ordered_pair_is_equally_likely() -> None:
    rng = SeededRng(7)
    for size, count in ((4, 2), (3, 3)):
        seen = Counter(tuple(draw_distinct(np.arange(size), count, rng)) for _ in range(12_000))
        orders = 12 if size == 4 else 6
        assert len(seen) == orders
        expected = 12_000 / orders
        assert all(abs(times - expected) < 5 * expected**0.5 for times in seen.values())


@given(scores=st.lists(st.integers(0, 4), min_size=1, max_size=20), count=st.integers(1, 4), seed=st.integers(0, 100))
def test_lowest_is_a_prefix_of_the_sorted_scores(scores: list[int], count: int, seed: int) -> None:
    found = lowest(np.array(scores, dtype=float), question(len(scores), count), SeededRng(seed))
    slots = [each.slot for each in found]
    assert len(set(slots)) == len(slots) == min(count, len(scores))
    assert [scores[slot] for slot in slots] == [each.score for each in found] == sorted(scores)[:count]


@given(weights=st.lists(st.floats(0, 5), min_size=1, max_size=12), count=st.integers(1, 4), seed=st.integers(0, 100))
def test_weighted_draws_are_distinct_and_prefer_those_with_weight(weights: list[float], count: int, seed: int) -> None:
    found = by_weight(np.array(weights), question(len(weights), count), SeededRng(seed))
    slots = [each.slot for each in found]
    assert len(set(slots)) == len(slots) == min(count, len(weights))
    with_weight = sum(weight > 1e-12 for weight in weights)
    assert sum(weights[slot] > 1e-12 for slot in slots) >= min(with_weight, len(slots))


def test_weighted_draws_are_in_proportion() -> None:
    rng = SeededRng(5)
    weights = np.array([1.0, 2.0, 0.0, 5.0])
    seen = Counter(by_weight(weights, question(4, 1), rng)[0].slot for _ in range(8000))
    assert [seen[slot] / 1000 for slot in range(4)] == pytest.approx([1.0, 2.0, 0.0, 5.0], abs=0.25)
