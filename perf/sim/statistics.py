"""Means over seeds with their 95 % intervals, and what theory says of the fleets that are compared."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from perf.sim.model import Scenario

__all__ = ["Estimate", "expected_maximum", "over_seeds", "random_expectation", "report_floor"]

_NORMAL = statistics.NormalDist().inv_cdf(0.975)
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""The 97.5 % quantiles of Student's t of 1, 2, ... degrees of freedom."""


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
    return Estimate(statistics.fmean(finite), _student(len(finite) - 1) * statistics.stdev(finite) / math.sqrt(len(finite)))


def _student(freedom: int) -> float:
    """97.5 % quantile of Student's t; beyond the table by the expansion about the normal (to 0.0005)."""
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    z = _NORMAL
    first, second = (z**3 + z) / 4.0, (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
    third = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
    return z + first / freedom + second / freedom**2 + third / freedom**3


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
