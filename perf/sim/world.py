"""The truth: what every runtime really holds and burns. Routers never see this; the ideal does."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from balancer.capacity.cpu_curve import Curve
from balancer.capacity.effective_capacity import CapacityRule
from perf.sim.model import Scenario
from runtime.session.inflow import InflowBucket

__all__ = ["TICKS_PER_S", "World"]

Floats = NDArray[np.float64]
TICKS_PER_S: Final = 1
_DEPTH: Final = 16
_FLOOR_PER_S: Final = 0.5
_BURST_FACTOR: Final = 4.0
_RAMP_S: Final = 60.0


class World:
    """Arrays over the runtimes. `cost`: sum of the sessions' cost factors; `capacity`: sessions of mean cost that fill it to
    the target with the rule's margin for talk."""

    def __init__(self, scenario: Scenario, rule: CapacityRule, z: float, rng: np.random.Generator) -> None:
        machines, callers = scenario.machines, scenario.callers
        size = machines.count
        self.scenario = scenario
        self.slowness = np.array([machines.slownesses[i % len(machines.slownesses)] for i in range(size)])
        limit = float(machines.hard_limit)
        curve = Curve(machines.u0, machines.k, machines.g, limit, limit)
        fitting = [
            curve.capacities(np.array([each]), rule.target_utilisation, z, callers.talk_variance, limit * each)[0]
            for each in self.slowness
        ]
        self.capacity = np.minimum(np.array(fitting), limit)
        self.hard_limit = np.full(size, float(machines.hard_limit))
        self.active = np.zeros(size)
        self.reserved = np.zeros(size)
        self.cost = np.zeros(size)
        self.cost_squares = np.zeros(size)
        self.started = np.zeros(size)
        self.ended = np.zeros(size)
        self.is_up = np.ones(size, np.bool_)
        self.is_ready = np.ones(size, np.bool_)
        self.incarnation = np.ones(size, np.int64)
        self.utilisation = np.zeros(size)
        """Momentary demand, may exceed 1."""
        self.recent_starts = np.zeros(size)
        self._start_work_s = np.zeros(size)
        self.buckets = [self._bucket(0) for _ in range(size)]
        self._talk = rng.standard_normal(size)
        # So that the integral of its correlation, which is what a window averages, is the talk's: exp(-tick/correlation) would
        # remember longer, since a tick holds one moment for its whole length.
        moments = 2.0 * callers.talk_correlation_s * TICKS_PER_S
        self._keep = max(0.0, (moments - 1.0) / (moments + 1.0))
        self._window = np.zeros((max(1, round(scenario.network.window_s * TICKS_PER_S)), size))
        self._window_count = 0
        self._rng = rng

    @staticmethod
    def _bucket(now_ns: int, ramp_s: float = 0.0) -> InflowBucket:
        return InflowBucket(_DEPTH, _FLOOR_PER_S, _BURST_FACTOR, now_ns, ramp_s)

    def enter(self, runtime: int, cost: float) -> None:
        self.active[runtime] += 1.0
        self.started[runtime] += 1.0
        self.cost[runtime] += cost
        self.cost_squares[runtime] += cost * cost
        self._start_work_s[runtime] += self.scenario.machines.start_work_s
        self.recent_starts[runtime] += 1.0

    def leave(self, runtime: int, cost: float) -> None:
        self.active[runtime] -= 1.0
        self.ended[runtime] += 1.0
        self.cost[runtime] -= cost
        self.cost_squares[runtime] -= cost * cost

    def restart(self, runtime: int, now_ns: int) -> None:
        """Back, empty, with a new incarnation."""
        for each in (self.active, self.reserved, self.cost, self.cost_squares, self.started, self.ended, self.recent_starts):
            each[runtime] = 0.0
        self._window[:, runtime] = self.scenario.machines.u0
        self.incarnation[runtime] += 1
        self.buckets[runtime] = self._bucket(now_ns, _RAMP_S)
        self.is_up[runtime] = self.is_ready[runtime] = True

    def load(self) -> Floats:
        """Cost load over capacity."""
        load: Floats = self.cost / self.capacity
        return load

    def committed_utilisation(self, runtime: int) -> float:
        """What its sessions use in the long run."""
        machines, x = self.scenario.machines, float(self.slowness[runtime] * self.cost[runtime])
        return machines.u0 + x * (machines.k + machines.g * x)

    def all_committed(self) -> Floats:
        machines = self.scenario.machines
        x = self.slowness * self.cost
        return machines.u0 + x * (machines.k + machines.g * x)

    def tick(self, at_s: float) -> None:
        """One second of talk and CPU. The sum over a runtime's callers is taken as normal about its mean."""
        callers, machines = self.scenario.callers, self.scenario.machines
        talking = callers.talking(at_s)
        self._talk *= self._keep
        self._talk += math.sqrt(1.0 - self._keep**2) * self._rng.standard_normal(self._talk.shape[0])
        spread = np.sqrt(np.maximum(self.cost_squares, 0.0) * talking * (1.0 - talking))
        speech = np.clip(self.cost * talking + spread * self._talk, 0.0, self.cost)
        x = self.slowness * (callers.quiet_cost * (self.cost - speech) + speech) / callers.activity
        self.utilisation = machines.u0 + x * (machines.k + machines.g * x) + self._start_work_s * TICKS_PER_S
        self._start_work_s[:] = 0.0
        self._window[self._window_count % self._window.shape[0]] = np.minimum(self.utilisation, 1.0)
        self._window_count += 1
        self.recent_starts *= math.exp(-1.0 / TICKS_PER_S)

    def reported_utilisation(self) -> Floats:
        """Mean of the window, as a runtime's own meter gives it."""
        filled = min(self._window_count, self._window.shape[0])
        mean: Floats = self._window[: max(1, filled)].mean(axis=0)
        return mean

    def startup_s(self, runtime: int) -> float:
        """Rises with load and with the starts of the last second."""
        free = max(0.05, 1.0 - self.utilisation.item(runtime))
        return self.scenario.machines.startup_s * (1.0 + 0.1 * self.recent_starts.item(runtime)) / free
