"""Means over seeds with their 95 % intervals, and what theory says of the fleets that are compared."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from perf.sim.model import Scenario

__all__ = ["Estimate", "expected_maximum", "over_seeds", "random_expectation", "report_floor"]

_STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}


@dataclass(frozen=True, slots=True)
class Estimate:
    """Mean and half width of the 95 % interval; NaN width with one seed."""

    mean: float
    half_width: float

    def __str__(self) -> str:
        return f"{self.mean:.4g}" if math.isnan(self.half_width) else f"{self.mean:.4g} ± {self.half_width:.2g}"


def over_seeds(values: Sequence[float]) -> Estimate:
    finite = [each for each in values if not math.isnan(each)]
    if not finite:
        return Estimate(math.nan, math.nan)
    if len(finite) == 1:
        return Estimate(finite[0], math.nan)
    student = _STUDENT.get(len(finite) - 1, 1.96)
    return Estimate(statistics.fmean(finite), student * statistics.stdev(finite) / math.sqrt(len(finite)))


def expected_maximum(count: int) -> float:
    """Mean of the largest of `count` standard normal values (Blom's approximation)."""
    return statistics.NormalDist().inv_cdf((count - 0.375) / (count + 0.25)) if count > 1 else 0.0


def random_expectation(scenario: Scenario) -> float:
    """max/mean where every call goes anywhere by even chance: sessions are then Poisson."""
    return 1.0 + expected_maximum(scenario.machines.count) / math.sqrt(scenario.sessions_each)


def report_floor(scenario: Scenario) -> float:
    """What reports alone can do: 1 + z_N * sqrt(2a / (m * E[S])), a the mean age of a report."""
    age_s = scenario.network.report_interval_s / 2.0 + scenario.network.report_delay_s
    spread = math.sqrt(2.0 * age_s / (scenario.sessions_each * scenario.callers.mean_s))
    return 1.0 + expected_maximum(scenario.machines.count) * spread
