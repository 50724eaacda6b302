"""Overload of the fleet: who is still let in when it fills (requirement R6). Low priority is turned away first.

    priority     from a fleet load of      in again below
    low          0.80                      0.75
    normal       0.95                      0.90
    high         1.00                      0.95

The fleet's load is the sum of loads over the sum of capacities of those that serve. Two thresholds each, so that a load at the
edge does not flap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from balancer.routing.request import Priority

__all__ = ["OVERLOAD_LEVELS", "FleetOverload", "OverloadRule"]

OVERLOAD_LEVELS: Final[Mapping[Priority, int]] = MappingProxyType({Priority.LOW: 1, Priority.NORMAL: 2, Priority.HIGH: 3})
"""A runtime's overload level from which a priority gets nothing new there."""


@dataclass(frozen=True, slots=True)
class OverloadRule:
    """Raises ValueError, with the numbers, for thresholds that are not in order."""

    low: float = 0.80
    normal: float = 0.95
    high: float = 1.00
    hysteresis: float = 0.05

    def __post_init__(self) -> None:
        if not 0.0 < self.low <= self.normal <= self.high <= 2.0 or not math.isfinite(self.high):
            raise ValueError(
                f"overload thresholds are {self.low}, {self.normal}, {self.high}; "
                "allowed: above 0, at most 2, low <= normal <= high"
            )
        if not 0.0 <= self.hysteresis < self.low:
            raise ValueError(f"hysteresis is {self.hysteresis}; allowed: 0 up to the lowest threshold {self.low}")


class FleetOverload:
    """Latches, one a priority."""

    __slots__ = ("_refused", "_rule")

    def __init__(self, rule: OverloadRule) -> None:
        self._rule = rule
        self._refused: dict[Priority, bool] = dict.fromkeys(Priority, False)

    def refuses(self, priority: Priority, load: float) -> bool:
        """Whether a start of this priority is turned away at this load of the fleet (before it is placed)."""
        threshold: float = getattr(self._rule, priority.value)
        if load >= threshold - 1e-9:
            self._refused[priority] = True
        elif load < threshold - self._rule.hysteresis:
            self._refused[priority] = False
        return self._refused[priority]
