"""How many sessions a runtime may hold: the hybrid of session rate and CPU (requirement R1).

    rate            = n / W                       sessions per second that the window saw
    cost            = u / rate                    utilisation per unit of rate
    additional_rate = max(0, (T - u) / (cost * S))
    E               = n + additional_rate * W     at most hard_limit

n active sessions, u mean utilisation, T target utilisation, W window, S safety scaler. W cancels; it stays in the formula and
in the settings because the rate is reported in it. E caps how many; it is no ranking, since it contains n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["MINIMUM_UTILISATION", "CapacityRule", "effective_capacities", "effective_capacity"]

Floats = NDArray[np.float64]

MINIMUM_UTILISATION: Final = 0.01
"""A runtime that looks idler than this counts as this: a cost of zero would promise endless capacity."""


@dataclass(frozen=True, slots=True)
class CapacityRule:
    """The settings of the formula. Raises ValueError, with name, value and range, for what makes no sense."""

    target_utilisation: float = 0.8
    window_s: float = 10.0
    scaler: float = 2.0
    cold_allowance: int = 4
    """E of a runtime without sessions: nothing is known of its cost yet."""

    def __post_init__(self) -> None:
        # Written as `not (...)` so that NaN is refused too.
        if not 0.0 < self.target_utilisation <= 1.0:
            raise ValueError(f"target_utilisation is {self.target_utilisation}; allowed: above 0, at most 1")
        if not (self.scaler >= 1.0 and math.isfinite(self.scaler)):
            raise ValueError(f"scaler is {self.scaler}; allowed: at least 1, finite")
        if not (self.window_s > 0.0 and math.isfinite(self.window_s)):
            raise ValueError(f"window_s is {self.window_s}; allowed: above 0, finite")
        if self.cold_allowance < 0:
            raise ValueError(f"cold_allowance is {self.cold_allowance}; allowed: at least 0")


def effective_capacity(active: int, utilisation: float, hard_limit: int, rule: CapacityRule) -> float:
    """E of a runtime with `active` sessions at `utilisation` (finite, 0 and up), in sessions, at most `hard_limit`.

    Both worked examples of the requirement:

    >>> effective_capacity(10, 0.9, 1000, CapacityRule())
    10.0
    >>> round(effective_capacity(80, 0.4, 1000, CapacityRule()), 9)
    120.0
    """
    if active < 0 or hard_limit < 0 or not (math.isfinite(utilisation) and utilisation >= 0.0):
        raise ValueError(f"active {active}, utilisation {utilisation}, hard_limit {hard_limit}; allowed: finite, 0 and up")
    target = rule.target_utilisation
    if active == 0:
        return float(min(rule.cold_allowance, hard_limit)) if utilisation < target else 0.0
    used = max(utilisation, MINIMUM_UTILISATION)
    rate = active / rule.window_s
    cost = used / rate
    additional_rate = max(0.0, (target - used) / (cost * rule.scaler))
    return min(active + additional_rate * rule.window_s, float(hard_limit))


def effective_capacities(active: Floats, utilisation: Floats, hard_limit: Floats, rule: CapacityRule) -> Floats:
    """The same for many runtimes at once, `utilisation` finite."""
    target = rule.target_utilisation
    used = np.maximum(utilisation, MINIMUM_UTILISATION)
    busy = active + active * np.maximum(0.0, target / used - 1.0) / rule.scaler  # R1 with the window cancelled
    idle = np.where(utilisation < target, float(rule.cold_allowance), 0.0)
    return np.minimum(np.where(active == 0.0, idle, busy), hard_limit)
