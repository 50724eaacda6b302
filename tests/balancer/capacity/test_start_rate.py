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
