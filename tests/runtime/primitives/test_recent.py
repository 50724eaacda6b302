"""Percentiles of what is recent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.primitives.recent import RecentSamples


def test_what_is_old_does_not_count() -> None:
    samples = RecentSamples(100)
    for at, value in ((0, 9.0), (50, 1.0), (100, 3.0)):
        samples.add(value, at)
    assert samples.quantile(1.0, 100) == 9.0
    assert samples.quantile(1.0, 101) == 3.0
    assert samples.quantile(0.5, 101) == 1.0
    assert samples.mean(101) == 2.0
    assert samples.quantile(0.5, 1_000) is None
    assert samples.mean(1_000) is None


def test_the_oldest_go_when_there_are_too_many() -> None:
    samples = RecentSamples(100, limit=2)
    for value in (1.0, 2.0, 3.0):
        samples.add(value, 0)
    assert samples.mean(0) == 2.5


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=50), st.floats(0.01, 1.0))
def test_a_quantile_is_the_least_with_its_share_at_or_below(values: list[float], q: float) -> None:
    samples = RecentSamples(1)
    for value in values:
        samples.add(value, 0)
    found = samples.quantile(q, 0)
    assert found in values
    assert sum(value <= found for value in values) >= q * len(values) - 1e-9
    assert sum(value < found for value in values) < q * len(values)


@pytest.mark.parametrize("q", [0.0, -1.0, 1.1])
def test_a_share_out_of_range_is_refused(q: float) -> None:
    with pytest.raises(ValueError, match="allowed: above 0, at most 1"):
        RecentSamples(1).quantile(q, 0)
