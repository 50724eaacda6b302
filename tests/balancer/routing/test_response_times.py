"""The 95th percentile of each runtime's last hundred answers; unknown below fifty."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from balancer.routing.response_times import ResponseTimes


def test_unknown_below_fifty_and_then_the_95th_of_the_last_hundred() -> None:
    times = ResponseTimes(2)
    for number in range(49):
        times.add(0, float(number))
    assert np.isnan(times.p95_ms[0])
    times.add(0, 49.0)
    assert times.p95_ms[0] == 46.0
    for number in range(1000, 1100):
        times.add(0, float(number))
    assert times.p95_ms[0] == 1094.0  # the first fifty are forgotten
    assert np.isnan(times.p95_ms[1])


def test_a_slot_is_forgotten_and_growing_keeps_the_others() -> None:
    times = ResponseTimes(2)
    for slot in (0, 1):
        for _ in range(60):
            times.add(slot, 5.0 + slot)
    times.grow(4)
    times.forget(0)
    assert np.isnan(times.p95_ms[[0, 2, 3]]).all()
    assert times.p95_ms[1] == 6.0
    times.add(0, 1.0)
    assert np.isnan(times.p95_ms[0])  # it begins anew


@given(st.lists(st.floats(0.0, 1e4), min_size=50, max_size=250))
def test_it_is_one_of_the_last_hundred_with_few_above(samples: list[float]) -> None:
    times = ResponseTimes(1)
    for each in samples:
        times.add(0, each)
    last = samples[-100:]
    p95 = times.p95_ms[0]
    assert p95 in last
    assert sum(each > p95 for each in last) <= 0.05 * len(last) + 1
