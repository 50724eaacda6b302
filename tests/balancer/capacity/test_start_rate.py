"""The fleet's start rate: unknown at first, up at once, down slowly, true on average."""

from __future__ import annotations

import pytest

from balancer.capacity.start_rate import StartRate
from runtime.primitives.clock import NS_PER_S


def test_unknown_until_five_starts() -> None:
    rate = StartRate()
    for _ in range(4):
        rate.add(NS_PER_S)
    assert rate.per_s(NS_PER_S) == 0.0
    rate.add(NS_PER_S)
    assert rate.per_s(NS_PER_S) == pytest.approx(2.5)


def test_a_steady_stream_is_measured_and_a_pause_decays_slowly() -> None:
    rate = StartRate()
    for tick in range(3000):
        rate.add(tick * NS_PER_S // 10)
    assert rate.per_s(300 * NS_PER_S) == pytest.approx(10.0, rel=0.05)
    assert 3.0 < rate.per_s(330 * NS_PER_S) < 4.0
    assert rate.per_s(299 * NS_PER_S) >= rate.per_s(300 * NS_PER_S)  # a backward clock counts as no time


def test_a_burst_raises_it_at_once_and_lumps_do_not_raise_the_slow_one() -> None:
    rate = StartRate()
    for second in range(120):
        rate.add(second * NS_PER_S)
    for number in range(40):  # ten a second
        rate.add(120 * NS_PER_S + number * NS_PER_S // 10)
    now_ns = 124 * NS_PER_S
    assert rate.per_s(now_ns) > 7.0
    assert rate.slow_per_s(now_ns) < 3.0
    lumps = StartRate()
    for report in range(30):  # what others started, as it is heard of: all of ten seconds at once
        lumps.add(report * 10 * NS_PER_S, 20.0)
    assert lumps.slow_per_s(295 * NS_PER_S) == pytest.approx(2.0, rel=0.2)
    assert lumps.per_s(290 * NS_PER_S) > 5.0  # the fast one takes a lump for a burst
