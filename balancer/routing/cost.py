"""Cheap runtimes first, while there is room enough for a choice (requirement R7).

    price       owned 1, on demand 2, spot 0.5
    strength    1 below a fleet load of 0.7, falling to 0 at 0.8
    room        capacity / price^strength, but at most 0.8 of the capacity where the price is not 1

The water of the default policy is poured over `room` instead of the capacity, so that of two runtimes the one at half the price
is filled to twice the level: the gap is divided by the price, with the load there counted at its price. Dividing the gaps below
a common level would change next to nothing, since they are what arrives within a second. Never a filter: nobody is refused for
a price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from balancer.capacity.water_level import pour
from runtime.primitives.load_snapshot import CostClass

__all__ = ["CostRule", "pour_by_price"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CostRule:
    """Raises ValueError, with name, value and range."""

    owned: float = 1.0
    on_demand: float = 2.0
    spot: float = 0.5
    full_below: float = 0.7
    """Load of the fleet up to which prices count in full."""
    none_from: float = 0.8
    """Load from which they do not count: then evenness is worth more than money."""

    def __post_init__(self) -> None:
        for name in ("owned", "on_demand", "spot"):
            value = getattr(self, name)
            if not (math.isfinite(value) and 0.01 <= value <= 100.0):
                raise ValueError(f"cost_{name} is {value}; allowed: 0.01 to 100")
        if not 0.0 <= self.full_below < self.none_from <= 1.0:
            raise ValueError(
                f"cost thresholds are {self.full_below} and {self.none_from}; allowed: 0 to 1, the first below the second"
            )

    def price(self, cost_class: CostClass) -> float:
        price: float = getattr(self, cost_class.value)
        return price

    def strength(self, fleet_load: float) -> float:
        """How much prices count, 0 to 1.

        >>> [round(CostRule().strength(load), 3) for load in (0.0, 0.7, 0.75, 0.8, 1.2)]
        [1.0, 1.0, 0.5, 0.0, 0.0]
        """
        return min(max((self.none_from - fleet_load) / (self.none_from - self.full_below), 0.0), 1.0)


def pour_by_price(
    load: Floats, capacity: Floats, price: Floats, volume: float, fleet_load: float, rule: CostRule
) -> tuple[Floats, Floats]:
    """What each runtime should be filled to just now, and the gap up to there; arguments as for `pour`.

    >>> one = np.ones(3)
    >>> filled, _ = pour_by_price(0.0 * one, 10.0 * one, np.array([1.0, 2.0, 0.5]), 7.0, 0.2, CostRule())
    >>> filled.tolist()
    [2.0, 1.0, 4.0]
    """
    strength = rule.strength(fleet_load)
    if strength > 0.0 and float(price.min()) != float(price.max()):
        relative = price**strength
        # Nobody is filled for its price beyond where prices do not count.
        room = capacity / relative
        most = np.where(relative == 1.0, capacity, rule.none_from * capacity)
        is_open = load < most
        if is_open.any():
            level, _ = pour(load[is_open], room[is_open], volume)
            filled = np.minimum(level * room, most)
            gaps = np.maximum(filled - load, 0.0)
            if gaps.sum() > 1e-9:
                return filled, gaps
    level, gaps = pour(load, capacity, volume)
    return level * capacity, gaps
