"""Draws are distinct, uniform, and broken ties are fair."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from balancer.routing.draw import draw_distinct, lowest_first
from runtime.primitives.rng import SeededRng


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
def test_lowest_first_is_a_prefix_of_the_sorted_scores(scores: list[int], count: int, seed: int) -> None:
    kept = np.arange(len(scores))
    order = lowest_first(np.array(scores, dtype=float), kept, count, SeededRng(seed))
    assert len(set(order)) == len(order) == min(count, len(scores))
    assert [scores[index] for index in order] == sorted(scores)[:count]
