"""R1 exactly: both worked examples and every corner."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.capacity.effective_capacity import CapacityRule, effective_capacities, effective_capacity

RULE = CapacityRule()


# requirement R1
@pytest.mark.parametrize(
    ("active", "utilisation", "hard_limit", "expected"),
    [
        (10, 0.9, 1000, 10.0),  # worked example: nothing new
        (80, 0.4, 1000, 120.0),  # worked example: gradually
        (80, 0.4, 100, 100.0),  # never above the hard limit
        (0, 0.0, 1000, 4.0),  # cold: the allowance
        (0, 0.79, 1000, 4.0),
        (0, 0.8, 1000, 0.0),  # cold but at the target
        (0, 0.95, 1000, 0.0),
        (0, 0.0, 3, 3.0),  # the allowance is capped too
        (10, 0.8, 1000, 10.0),  # at the target
        (10, 0.0, 10_000, 10 * (1 + (0.8 / 0.01 - 1) / 2)),  # idle-looking counts as 0.01
        (10, 0.009, 10_000, 10 * (1 + (0.8 / 0.01 - 1) / 2)),
        (10, 7.0, 1000, 10.0),  # far above the target
        (12, 0.1, 10, 10.0),  # above its limit already
        (5, 0.4, 0, 0.0),
    ],
)
def test_the_formula_and_its_corners(active: int, utilisation: float, hard_limit: int, expected: float) -> None:
    assert effective_capacity(active, utilisation, hard_limit, RULE) == pytest.approx(expected)


def test_the_cold_allowance_is_a_setting() -> None:
    assert effective_capacity(0, 0.1, 100, CapacityRule(cold_allowance=8)) == 8.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("target_utilisation", 0.0), ("target_utilisation", -0.1), ("target_utilisation", 1.01),
        ("target_utilisation", math.nan), ("scaler", 0.99), ("scaler", math.nan), ("scaler", math.inf),
        ("window_s", 0.0), ("window_s", -1.0), ("window_s", math.nan), ("window_s", math.inf), ("cold_allowance", -1),
    ],
)  # fmt: skip
def test_impossible_parameters_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        CapacityRule(**{field: value})  # type: ignore[arg-type]  # one bad field at a time


@pytest.mark.parametrize("utilisation", [math.nan, math.inf, -0.1])
def test_a_utilisation_that_a_report_check_would_drop_is_refused(utilisation: float) -> None:
    with pytest.raises(ValueError, match="utilisation"):
        effective_capacity(1, utilisation, 10, RULE)


@given(
    active=st.integers(0, 5000),
    utilisation=st.floats(0, 16),
    hard_limit=st.integers(1, 5000),
    window_s=st.floats(0.1, 600),
)
def test_the_window_cancels_and_the_result_is_bounded(active: int, utilisation: float, hard_limit: int, window_s: float) -> None:
    found = effective_capacity(active, utilisation, hard_limit, RULE)
    other = effective_capacity(active, utilisation, hard_limit, CapacityRule(window_s=window_s))
    assert found == pytest.approx(other)
    assert 0.0 <= found <= hard_limit
    if active:
        assert found >= min(active, hard_limit)


@given(active=st.integers(1, 500), low=st.floats(0, 2), more=st.floats(0, 2))
def test_more_load_never_gives_more_room(active: int, low: float, more: float) -> None:
    assert effective_capacity(active, low + more, 10_000, RULE) <= effective_capacity(active, low, 10_000, RULE) + 1e-9


runtimes = st.lists(st.tuples(st.integers(0, 500), st.floats(0.0, 3.0), st.integers(0, 600)), min_size=1, max_size=20)


@given(runtimes, st.floats(0.05, 1.0), st.floats(1.0, 10.0), st.integers(0, 50), st.floats(0.5, 60.0))
def test_many_at_once_are_the_same_as_one_by_one(
    rows: list[tuple[int, float, int]], target: float, scaler: float, cold: int, window_s: float
) -> None:
    rule = CapacityRule(target, window_s, scaler, cold)
    active, utilisation, limit = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    found = effective_capacities(active, utilisation, limit, rule)
    one_by_one = [effective_capacity(*row, rule) for row in rows]
    # A runtime beyond its limit: one by one and together give the limit.
    np.testing.assert_allclose(found, one_by_one, rtol=1e-9)
