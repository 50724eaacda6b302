"""The cold floor: continuous below the cold allowance, R1 exactly from there on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.capacity.cold_floor import floored_capacities
from balancer.capacity.effective_capacity import CapacityRule, effective_capacity

RULE = CapacityRule()


def floored_capacity(active: int, utilisation: float, hard_limit: int, rule: CapacityRule) -> float:
    found = floored_capacities(np.array([float(active)]), np.array([utilisation]), np.array([float(hard_limit)]), rule)
    return float(found[0])


@pytest.mark.parametrize(
    ("active", "utilisation", "expected"),
    [(0, 0.0, 4.0), (1, 0.3, 4.0), (3, 0.79, 4.0), (1, 0.8, 1.0), (3, 0.95, 3.0), (10, 0.9, 10.0), (80, 0.4, 120.0)],
)
def test_table(active: int, utilisation: float, expected: float) -> None:
    assert floored_capacity(active, utilisation, 1000, RULE) == pytest.approx(expected)


@given(st.integers(0, 500), st.floats(0.0, 3.0), st.integers(1, 400))
def test_it_is_r1_from_the_cold_allowance_on_and_never_below_it(active: int, utilisation: float, hard_limit: int) -> None:
    effective = effective_capacity(active, utilisation, hard_limit, RULE)
    floored = floored_capacity(active, utilisation, hard_limit, RULE)
    assert effective <= floored + 1e-9
    assert floored <= max(effective, min(RULE.cold_allowance, hard_limit)) + 1e-9
    if active >= RULE.cold_allowance or utilisation >= RULE.target_utilisation:
        assert floored == pytest.approx(effective)
