"""A runtime with a few sessions is no smaller than an idle one.

R1 gives an idle runtime the cold allowance, and a runtime with one session at 30 % CPU room for less than one more: the formula
divides by what one call's start happened to cost. Up to the cold allowance the two are made continuous:

    C(n, u) = max(E(n, u), E(0, u))      for n below the cold allowance
    C(n, u) = E(n, u)                    from there on
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from balancer.capacity.effective_capacity import CapacityRule, effective_capacities

__all__ = ["floored_capacities"]

Floats = NDArray[np.float64]


def floored_capacities(active: Floats, utilisation: Floats, hard_limit: Floats, rule: CapacityRule) -> Floats:
    """C, in sessions. Arguments as for `effective_capacities`.

    >>> floored_capacities(np.ones(2), np.array([0.3, 0.8]), np.full(2, 32.0), CapacityRule())
    array([4., 1.])
    """
    effective = effective_capacities(active, utilisation, hard_limit, rule)
    is_below = active < rule.cold_allowance
    if not is_below.any():
        return effective
    idle = effective_capacities(np.zeros_like(active), utilisation, hard_limit, rule)
    return np.where(is_below, np.maximum(effective, idle), effective)
