"""The overload latch: on above 0.9, off below 0.8, steady between and when nothing is known."""

from __future__ import annotations

from balancer.capacity.overload import OverloadLatch


def test_hysteresis() -> None:
    latch = OverloadLatch()
    seen = [latch.update(load) for load in (0.5, 0.9, 0.91, 0.85, None, 0.8, 0.79, 0.85, 0.9)]
    assert seen == [False, False, True, True, True, True, False, False, False]
