"""Results as text: the same tables on a terminal and in docs/simulation.md."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from perf.sim.matrix import Cell
from perf.sim.model import Scenario
from perf.sim.statistics import random_expectation, report_floor
from perf.targets import Target

__all__ = ["as_text", "scenario_table"]

_COLUMNS = (
    ("max/mean", "max_over_mean", 3),
    ("p99/mean", "p99_over_mean", 3),
    ("overload %", "overload_rate", 2),
    ("late %", "late_share", 2),
    ("start P50 ms", "startup_p50_ms", 0),
    ("P95", "startup_p95_ms", 0),
    ("P99", "startup_p99_ms", 0),
    ("refused %", "refused", 2),
    ("dropped", "dropped", 0),
    ("inflow x", "inflow_peak", 1),
    ("rebalance s", "rebalance_s", 0),
    ("bias", "estimate_bias", 2),
    ("rmse", "estimate_rmse", 2),
    ("calls/start", "calls_per_start", 2),
)
_PERCENT = {"overload_rate", "late_share", "refused"}


def as_text(scenarios: Iterable[Scenario], cells: Sequence[Cell], targets: Sequence[Target]) -> str:
    parts = [scenario_table(each, cells) for each in scenarios]
    if targets:
        parts.append("\n".join(f"{'met   ' if each.is_met else 'MISSED'} {_target(each)}" for each in targets))
    return "\n\n".join(parts)


def scenario_table(made: Scenario, cells: Sequence[Cell]) -> str:
    """A Markdown table of one scenario: the ideal first, then by overload, refusals and evenness."""
    mine = sorted((cell for cell in cells if cell.scenario == made.name), key=_rank)
    heading = (
        f"### {made.name}\n\n{made.about}. {made.machines.count} runtimes, {made.balancers} balancers, "
        f"{made.sessions_each:g} sessions each, reports every {made.network.report_interval_s:g} s; "
        f"{made.measured_s / 60:.3g} minutes measured after {made.warm_up_s:g} s. "
        f"Expected max/mean of even chance {random_expectation(made):.3f}, floor of reports alone {report_floor(made):.3f}.\n"
    )
    lines = ["| policy | " + " | ".join(label for label, _, _ in _COLUMNS) + " |", "|---" * (len(_COLUMNS) + 1) + "|"]
    lines += [f"| {cell.policy} | " + " | ".join(_shown(cell, *column) for column in _COLUMNS) + " |" for cell in mine]
    return heading + "\n" + "\n".join(lines)


def _rank(cell: Cell) -> tuple[bool, float, float]:
    values = cell.values
    return cell.policy != "ideal", round(values["overload_rate"].mean + values["refused"].mean, 3), values["max_over_mean"].mean


def _shown(cell: Cell, _label: str, metric: str, digits: int) -> str:
    value = cell.values[metric]
    if math.isnan(value.mean):
        return ""
    factor = 100.0 if metric in _PERCENT else 1.0
    shown = f"{factor * value.mean:.{digits}f}"
    width = factor * value.half_width
    return shown if math.isnan(width) or round(width, digits) == 0.0 else f"{shown} ± {width:.{digits}f}"


def _target(target: Target) -> str:
    value = "nothing" if target.value is None else f"{target.value:.4g}"
    return f"{target.name}: {value} (target {target.relation} {target.bound:.4g} {target.unit})"
