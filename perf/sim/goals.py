"""The targets of the default policy, each beside what the ideal did on the same callers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from perf.sim.matrix import Cell
from perf.sim.model import Scenario
from perf.targets import Target

__all__ = ["goals_of"]

_WIDEST = 0.05
_CLEARLY_BETTER = ("mixed_hardware", "mixed_cost", "many_balancers_8", "many_balancers_64", "restart")


def _value(cells: Mapping[str, Cell], policy: str, metric: str) -> float | None:
    cell = cells.get(policy)
    if cell is None or math.isnan(cell.values[metric].mean):
        return None
    return cell.values[metric].mean


def goals_of(made: Scenario, found: Sequence[Cell]) -> list[Target]:
    """Of one scenario. Nothing without both `session_aware` and `ideal`."""
    cells = {cell.policy: cell for cell in found if cell.scenario == made.name}
    if "session_aware" not in cells or "ideal" not in cells:
        return []

    def ours(metric: str) -> float | None:
        return _value(cells, "session_aware", metric)

    def ideal(metric: str) -> float:
        found = _value(cells, "ideal", metric)
        return math.nan if found is None else found

    name, size = made.name, made.machines.count
    even = ours("max_over_mean")
    goals = [Target(f"{name}: overload placements", ours("overload_rate"), "share", "<=", 0.0 if name == "steady" else 0.001)]
    allowance = ideal("max_over_mean") + 0.04
    match name:
        case "steady":
            goals.append(Target(f"{name}: max/mean", even, "ratio", "<=", 1.06 if size >= 500 else allowance))
        case "burst":
            goals.append(Target(f"{name}: max/mean", even, "ratio", "<=", 1.10))
        case "many_balancers_8":
            goals.append(Target(f"{name}: max/mean", even, "ratio", "<=", allowance))
        case "many_balancers_64":
            goals.append(Target(f"{name}: max/mean", even, "ratio", "<=", 1.06 if size >= 500 else allowance))
        case "report_loss":
            goals.append(Target(f"{name}: max/mean", even, "ratio", "<=", ideal("max_over_mean") + 0.06))
        case "mixed_hardware":
            goals.append(Target(f"{name}: max/mean", even, "ratio", "<=", ideal("max_over_mean") + 0.05))
        case "mixed_cost":
            goals.append(Target(f"{name}: max/mean of cost", even, "ratio", "<=", 1.15))
        case "silent_then_all_speak":
            late = ideal("late_share")
            goals.append(Target(f"{name}: late audio", ours("late_share"), "share", "<", max(0.001, late + 0.002)))
            goals.append(Target(f"{name}: refused beside the ideal", ours("refused"), "share", "<=", ideal("refused") + 0.02))
        case "restart":
            goals.append(Target(f"{name}: inflow peak", ours("inflow_peak"), "x fair", "<=", 4.0))
        case "rolling_deploy":
            goals.append(Target(f"{name}: dropped", ours("dropped"), "sessions", "<=", 0.0))
        case "flood":
            goals.append(Target(f"{name}: refused beside the ideal", ours("refused"), "share", "<=", ideal("refused") + 0.02))
            goals.append(Target(f"{name}: late audio", ours("late_share"), "share", "<=", ideal("late_share") + 0.002))
        case "unequal_traffic" | "stale_reports" | "clock_jumps" | "flapping" | "tight":
            goals.append(Target(f"{name}: max/mean", even, "ratio", "<=", allowance))
    unverified = _value(cells, "session_aware_unverified", "max_over_mean")
    if unverified is not None and name == "steady":
        goals.append(Target(f"{name}: max/mean without verification", unverified, "ratio", "<=", 1.16))
    return goals + _against_rivals(name, cells)


def _against_rivals(name: str, cells: Mapping[str, Cell]) -> list[Target]:
    """No worse than every other policy, within both intervals."""
    goals = []
    mine = cells["session_aware"].values
    for metric, unit in (("overload_rate", "share"), ("startup_p99_ms", "ms")):
        best: tuple[float, str] | None = None
        for policy, cell in cells.items():
            if policy in ("ideal", "session_aware", "session_aware_unverified"):
                continue
            theirs = cell.values[metric]
            widths = sum(each for each in (theirs.half_width, mine[metric].half_width) if not math.isnan(each))
            # Few seeds make wide intervals; they must not make the target easy.
            edge = theirs.mean + min(widths, max(_WIDEST * theirs.mean, 0.001))
            if not math.isnan(edge) and (best is None or edge < best[0]):
                best = (edge, policy)
        if best is not None:
            label = f"{name}: {metric} no worse than the best other ({best[1]})"
            goals.append(Target(label, mine[metric].mean, unit, "<=", best[0]))
    rival = cells.get("local_least_connections")
    if rival is not None and name in _CLEARLY_BETTER:
        label = f"{name}: max/mean below local_least_connections"
        goals.append(Target(label, mine["max_over_mean"].mean, "ratio", "<", rival.values["max_over_mean"].mean))
    return goals
