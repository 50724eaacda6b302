"""Overload of one runtime: a latch with two thresholds a priority, so that a load at the edge does not flap.

    priority     gets nothing new above     again below
    low          0.8                        0.7
    normal       0.9                        0.8
    high         1.0                        0.9

The load here is `utilisation / target`: what the meter shows. What is committed (sessions against capacity) is bounded apart,
exactly and at once, by the effective capacity and the hard limit: counts need no hysteresis, and a small full runtime must get
a new call as soon as one ends.
"""

from __future__ import annotations

from typing import Final

__all__ = ["OVERLOAD_OFF_BELOW", "OVERLOAD_ON_ABOVE", "OverloadLatch"]

OVERLOAD_ON_ABOVE: Final = (0.8, 0.9, 1.0)
"""Low, normal, high."""
OVERLOAD_OFF_BELOW: Final = (0.7, 0.8, 0.9)


class OverloadLatch:
    """`level`: how many priorities, lowest first, get nothing new. Unchanged while the load is unknown."""

    __slots__ = ("level",)

    def __init__(self) -> None:
        self.level = 0

    def update(self, load: float | None) -> int:
        if load is not None:
            # Above an on-threshold it rises; it falls only to where the load is below the off-threshold too.
            reached = sum(load > each for each in OVERLOAD_ON_ABOVE)
            held = sum(load >= each for each in OVERLOAD_OFF_BELOW)
            self.level = max(reached, min(self.level, held))
        return self.level
