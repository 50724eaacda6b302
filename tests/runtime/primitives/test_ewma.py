"""A mean that decays by time."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.primitives.ewma import Ewma

_S = 1_000_000_000


def test_it_starts_at_its_first_sample_and_decays_by_elapsed_time() -> None:
    mean = Ewma(2 * _S)
    assert mean.value == 0.0
    mean.add(1.0, 0)
    assert mean.value == 1.0
    mean.add(0.0, 2 * _S)
    assert mean.value == pytest.approx(math.exp(-1))


def test_many_small_steps_are_one_long_step() -> None:
    often, once = Ewma(_S), Ewma(_S)
    for mean in (often, once):
        mean.add(0.0, 0)
    for step in range(1, 101):
        often.add(1.0, step * _S // 50)
    once.add(1.0, 2 * _S)
    assert often.value == pytest.approx(once.value)


def test_a_sample_from_the_past_changes_nothing_of_the_past() -> None:
    mean = Ewma(_S)
    mean.add(1.0, 10 * _S)
    mean.add(0.0, 5 * _S)
    assert mean.value == 1.0


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(0, 10 * _S)), min_size=1, max_size=20))
def test_it_stays_among_its_samples(samples: list[tuple[float, int]]) -> None:
    mean = Ewma(_S)
    for sample, now_ns in samples:
        mean.add(sample, now_ns)
    values = [sample for sample, _ in samples]
    assert min(values) - 1e-9 <= mean.value <= max(values) + 1e-9


@pytest.mark.parametrize("sample", [math.nan, math.inf])
def test_what_is_no_number_is_refused(sample: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Ewma(1).add(sample, 0)


def test_no_time_constant_no_mean() -> None:
    with pytest.raises(ValueError, match="tau_ns is 0"):
        Ewma(0)
