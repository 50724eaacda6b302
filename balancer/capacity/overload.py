"""Overload of one runtime: a latch with two thresholds, so that a load at the edge does not flap.

The load here is `utilisation / target`. Session counts are left to the hard limit and the effective capacity: they are exact,
so they need no hysteresis, and a small full runtime must get a new call as soon as one ends.
"""

from __future__ import annotations

from typing import Final

__all__ = ["OVERLOAD_OFF_BELOW", "OVERLOAD_ON_ABOVE", "OverloadLatch"]

OVERLOAD_ON_ABOVE: Final = 0.9
OVERLOAD_OFF_BELOW: Final = 0.8


class OverloadLatch:
    """On above 0.9, off again below 0.8, unchanged between and while the load is unknown."""

    __slots__ = ("is_overloaded",)

    def __init__(self) -> None:
        self.is_overloaded = False

    def update(self, load: float | None) -> bool:
        if load is not None:
            if load > OVERLOAD_ON_ABOVE:
                self.is_overloaded = True
            elif load < OVERLOAD_OFF_BELOW:
                self.is_overloaded = False
        return self.is_overloaded
