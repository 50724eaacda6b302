"""The settings of the view: how load is estimated and priced."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from balancer.capacity.effective_capacity import CapacityRule
from balancer.routing.cost import CostRule

__all__ = ["LoadRule"]

_MOST_VARIANCE: Final = 4.0


@dataclass(frozen=True, slots=True)
class LoadRule:
    """Raises ValueError, with name, value and range."""

    capacity: CapacityRule = field(default_factory=CapacityRule)
    cost: CostRule = field(default_factory=CostRule)
    report_interval_s: float = 1.0
    mean_life_s: float = 180.0
    """Mean length of a session, until ends tell better."""
    z: float = 1.0
    """Standard deviations of talk that the target leaves room for."""
    talk_correlation_s: float = 0.615
    """How long talk and pause remember (ITU-T P.59: spurts of 1.004 s, pauses of 1.587 s)."""
    learns_capacity: bool = True
    """False: capacity is R1's formula alone."""

    def __post_init__(self) -> None:
        for name, least in (("report_interval_s", 0.01), ("mean_life_s", 1.0), ("z", 0.0)):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= least):
                raise ValueError(f"{name} is {value}; allowed: at least {least:g}, finite")

    def momentary_variance(self, in_window: float, lasting: float) -> float:
        """Relative variance of one session's CPU from moment to moment, from its variance over a window: of talk that is
        forgotten after `talk_correlation_s`, a window of W seconds averages W / (2 * talk_correlation_s) independent moments.

        What sessions that come and go do to the mean of a window's two ends is not talk: starts and ends are 2 / life a second
        and session, and between two known ends a walk of rate r has r * W / 12 of variance about the line.
        """
        in_window -= self.capacity.window_s / (6.0 * self.mean_life_s)
        averaged = max(1.0, self.capacity.window_s / (2.0 * self.talk_correlation_s))
        return min(max(in_window - lasting, 0.0) * averaged + lasting, _MOST_VARIANCE)

    @property
    def horizon_s(self) -> float:
        """How far ahead placements are planned. Verification corrects a picture that is a report old, so the horizon may be
        shorter than the interval: a quarter gave the evenest fleets in the simulator (docs/decisions/0015)."""
        return max(0.25 * self.report_interval_s, 1.0)
