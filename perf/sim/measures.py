"""What is counted in one run, after the warm-up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from perf.sim.model import Scenario
from perf.sim.world import World

__all__ = ["Measures"]

Floats = NDArray[np.float64]

_LATE_ABOVE: Final = 0.95
_FULL_ABOVE: Final = 0.8
_ROOM_BELOW: Final = 0.75
_INFLOW_WINDOW_S: Final = 30.0
_INFLOW_WATCHED_S: Final = 120.0


class Measures:
    def __init__(self, scenario: Scenario, world: World) -> None:
        self.scenario = scenario
        self.world = world
        self.max_over_mean: list[float] = []
        self.p99_over_mean: list[float] = []
        self.fleet_load: list[float] = []
        self.late_s = 0.0
        self.session_s = 0.0
        self.startups: list[float] = []
        self.calls = 0
        self.overload_placements = 0
        self.refusals = 0
        self.drops = 0
        self.bias: list[float] = []
        self.square_error: list[float] = []
        self.mean_utilisation: list[float] = []
        self.held_s = np.zeros(scenario.machines.count)
        """Session-seconds of each runtime."""
        self.inflow_peak = 0.0
        self.rebalanced_s: list[float] = []
        self._watched: dict[int, tuple[float, list[float]]] = {}
        self._unbalanced: dict[int, float] = {}

    def _counts(self, now_s: float) -> bool:
        return now_s >= self.scenario.warm_up_s

    def started(self, now_s: float, runtime: int, startup_s: float, calls: int) -> None:
        watched = self._watched.get(runtime)
        if watched is not None:
            watched[1].append(now_s)
        if not self._counts(now_s):
            return
        self.startups.append(startup_s)
        self.calls += calls
        world = self.world
        if world.committed_utilisation(runtime) > _FULL_ABOVE:
            others = world.all_committed()
            serving = world.is_up & world.is_ready & (world.active < world.hard_limit)
            serving[runtime] = False
            if serving.any() and float(others[serving].min()) < _ROOM_BELOW:
                self.overload_placements += 1

    def refused(self, now_s: float, calls: int) -> None:
        if self._counts(now_s):
            self.refusals += 1
            self.calls += calls

    def dropped(self, now_s: float, count: int = 1) -> None:
        if self._counts(now_s):
            self.drops += count

    def restarted(self, now_s: float, runtime: int) -> None:
        self._watched[runtime] = (now_s, [])
        self._unbalanced[runtime] = now_s

    def tick(self, now_s: float, estimates: Sequence[Floats]) -> None:
        """Once a second. `estimates`: of each balancer, its sessions by runtime."""
        if not self._counts(now_s):
            return
        world = self.world
        serving = world.is_up & world.is_ready
        load = world.load()
        mean = float(world.cost[serving].sum() / world.capacity[serving].sum()) if serving.any() else 0.0
        if mean > 0.0:
            self.max_over_mean.append(float(load[serving].max()) / mean)
            self.p99_over_mean.append(float(np.quantile(load[serving], 0.99)) / mean)
        self.fleet_load.append(mean)
        self.mean_utilisation.append(float(np.where(world.is_up, world.utilisation, 0.0).mean()))
        self.late_s += float(world.active[world.utilisation > _LATE_ABOVE].sum())
        self.session_s += float(world.active.sum())
        self.held_s += world.active
        for runtime, began_s in list(self._unbalanced.items()):
            if load[runtime] >= 0.8 * mean:
                self.rebalanced_s.append(now_s - began_s)
                del self._unbalanced[runtime]
        if int(now_s) % 10 == 0:
            for estimate in estimates:
                error = estimate[: world.active.shape[0]] - (world.active + world.reserved)
                self.bias.append(float(error.mean()))
                self.square_error.append(float(np.square(error).mean()))

    def close(self) -> None:
        world = self.world
        fair_per_s = self.scenario.usual_rate_per_s * world.capacity / world.capacity.sum()
        for runtime, (began_s, starts) in self._watched.items():
            starts = [each for each in starts if each - began_s <= _INFLOW_WATCHED_S]
            most = 0
            first = 0
            for last, at_s in enumerate(starts):
                while at_s - starts[first] > _INFLOW_WINDOW_S:
                    first += 1
                most = max(most, last - first + 1)
            # One session more than fair is no flood where the fair share of a window is below one.
            fair = max(fair_per_s.item(runtime) * _INFLOW_WINDOW_S, 1.0)
            self.inflow_peak = max(self.inflow_peak, most / fair)
        for began_s in self._unbalanced.values():
            self.rebalanced_s.append(self.scenario.length_s - began_s)

    def summary(self) -> dict[str, float]:
        starts, refused = len(self.startups), self.refusals
        offered = max(1, starts + refused)
        ordered = sorted(self.startups)
        worst = ordered[-1] if ordered else math.nan

        def startup(share: float) -> float:
            """A refusal counts as the worst start-up."""
            place = math.ceil(share * offered) - 1
            return (ordered[place] if place < starts else worst) if ordered else math.nan

        def mean(values: list[float]) -> float:
            return sum(values) / len(values) if values else math.nan

        return {
            "max_over_mean": mean(self.max_over_mean),
            "p99_over_mean": mean(self.p99_over_mean),
            "overload_rate": self.overload_placements / max(1, starts),
            "late_share": self.late_s / max(1.0, self.session_s),
            "startup_p50_ms": 1000 * startup(0.5),
            "startup_p95_ms": 1000 * startup(0.95),
            "startup_p99_ms": 1000 * startup(0.99),
            "starts": float(starts),
            "refused": refused / offered,
            "dropped": float(self.drops),
            "calls_per_start": self.calls / max(1, starts),
            "inflow_peak": self.inflow_peak,
            "rebalance_s": mean(self.rebalanced_s),
            "estimate_bias": mean(self.bias),
            "estimate_rmse": math.sqrt(mean(self.square_error)) if self.square_error else math.nan,
            "fleet_load": mean(self.fleet_load),
            "utilisation": mean(self.mean_utilisation),
        }
