"""Who calls, when, for how long and through which balancer. Draws nothing else, so every way to choose meets the same callers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from balancer.routing.request import Priority
from perf.sim.model import Scenario

__all__ = ["Caller", "Calling", "Crowd"]


@dataclass(slots=True)
class Caller:
    node: int
    cost: float
    length_s: float
    priority: Priority


class Calling(Protocol):
    """Where a simulation's callers come from."""

    def already_there(self, capacity: NDArray[np.float64], /) -> Iterator[tuple[int, float, float, int]]:
        """Sessions of the first moment as (runtime, seconds left, cost, balancer)."""
        ...

    def next_arrival_s(self, now_s: float, /) -> float:
        """When the next caller comes; infinite: none does."""
        ...

    def caller(self) -> Caller:
        """Who it is."""
        ...


class Crowd:
    """Drawn by chance, as the scenario says."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario = scenario
        self._random = random.Random(seed)
        shares = scenario.traffic or (1.0,) * scenario.balancers
        self._shares = list(itertools.accumulate(share / sum(shares) for share in shares))

    def already_there(self, capacity: NDArray[np.float64]) -> Iterator[tuple[int, float, float, int]]:
        """The steady state's sessions as (runtime, seconds left, cost, balancer), dealt out evenly by capacity. Their remaining
        lives are those of sessions met by chance: of a length drawn by length, a uniform part."""
        scenario = self._scenario
        mu, sigma = scenario.callers.lognormal
        total = round(scenario.sessions_each * capacity.shape[0] * min(1.0, scenario.arrivals(0.0)))
        shares = capacity / capacity.sum() * total
        counts = np.floor(shares).astype(int)
        counts[np.argsort(counts - shares)[: total - int(counts.sum())]] += 1
        for runtime, count in enumerate(counts.tolist()):
            for _ in range(count):
                whole_s = self._random.lognormvariate(mu + sigma * sigma, sigma)
                yield runtime, self._random.random() * whole_s, self._cost(), self._node()

    def next_arrival_s(self, now_s: float) -> float:
        """Thinned Poisson."""
        scenario = self._scenario
        most = scenario.most_arrivals
        rate = scenario.usual_rate_per_s * most
        at_s = now_s
        while True:
            at_s += self._random.expovariate(rate)
            if scenario.arrivals(at_s - scenario.warm_up_s) >= self._random.random() * most:
                return at_s

    def caller(self) -> Caller:
        mu, sigma = self._scenario.callers.lognormal
        length_s = self._random.lognormvariate(mu, sigma)
        return Caller(self._node(), self._cost(), length_s, self._priority())

    def _priority(self) -> Priority:
        callers = self._scenario.callers
        if not (callers.low_priority or callers.high_priority):
            return Priority.NORMAL
        draw = self._random.random()
        if draw < callers.low_priority:
            return Priority.LOW
        return Priority.HIGH if draw > 1.0 - callers.high_priority else Priority.NORMAL

    def _cost(self) -> float:
        callers = self._scenario.callers
        cost, mean = 1.0, 1.0
        if len(callers.costs) > 1:
            mean = sum(each * share for each, share in callers.costs)
            draw = self._random.random()
            for each, share in callers.costs:
                cost = each
                draw -= share
                if draw < 0.0:
                    break
        if callers.cost_spread:
            sigma = callers.cost_spread
            cost *= self._random.lognormvariate(-sigma * sigma / 2.0, sigma)
        return cost / mean

    def _node(self) -> int:
        draw = self._random.random()
        for number, share in enumerate(self._shares):
            if draw < share:
                return number
        return len(self._shares) - 1
