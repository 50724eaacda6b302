"""What a scenario consists of. Times in seconds, rates in 1/s, CPU as a share of a runtime's allowance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

__all__ = ["Always", "Callers", "Disturbance", "Machines", "Network", "Scenario"]

Profile = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Always:
    """A profile that does not change with time."""

    value: float

    def __call__(self, _at_s: float) -> float:
        return self.value


_USUAL_TALKING: Final = Always(1.004 / (1.004 + 1.587))
_USUAL_ARRIVALS: Final = Always(1.0)


@dataclass(frozen=True, slots=True)
class Callers:
    """Lognormal lengths; talk spurts of 1.004 s and pauses of 1.587 s (ITU-T P.59); a cost factor for each caller."""

    mean_s: float = 180.0
    sd_s: float = 240.0
    costs: tuple[tuple[float, float], ...] = ((1.0, 1.0),)
    """(relative cost, share of the callers); scaled to a mean of 1."""
    cost_spread: float = 0.0
    """Standard deviation of the lognormal factor on each caller's cost."""
    talking: Profile = _USUAL_TALKING
    """Share of the time that a caller talks, or is answered."""
    quiet_cost: float = 0.2
    """CPU of a quiet caller over that of one who talks."""
    talk_correlation_s: float = 0.615
    low_priority: float = 0.0
    high_priority: float = 0.0

    @property
    def usual_talking(self) -> float:
        return _USUAL_TALKING.value

    @property
    def activity(self) -> float:
        """Mean CPU of a caller over that of one who always talks."""
        return self.quiet_cost + (1.0 - self.quiet_cost) * self.usual_talking

    @property
    def talk_variance(self) -> float:
        """Of one caller's momentary CPU, over its mean squared."""
        talking = self.usual_talking
        return talking * (1.0 - talking) * (1.0 - self.quiet_cost) ** 2 / self.activity**2

    @property
    def lognormal(self) -> tuple[float, float]:
        """mu and sigma of the lengths."""
        sigma2 = math.log(1.0 + (self.sd_s / self.mean_s) ** 2)
        return math.log(self.mean_s) - sigma2 / 2.0, math.sqrt(sigma2)


@dataclass(frozen=True, slots=True)
class Machines:
    """CPU of n sessions of mean cost: u0 + k*x + g*x^2 with x = slowness * n. `slownesses` go round over the runtimes."""

    count: int = 100
    u0: float = 0.02
    k: float = 0.0115
    g: float = 0.00002
    slownesses: tuple[float, ...] = (1.0,)
    hard_limit: int = 100
    start_work_s: float = 0.0
    """CPU of a start, in seconds of the runtime's whole allowance."""
    startup_s: float = 0.05
    """Start-up time on an idle runtime."""


@dataclass(frozen=True, slots=True)
class Network:
    report_interval_s: float = 10.0
    window_s: float = 10.0
    report_delay_s: float = 0.01
    report_jitter_s: float = 0.0
    loss: float = 0.0
    duplicates: float = 0.0
    garbage: float = 0.0
    """Share of the reports whose CPU is nonsense (a clock jumped within the window)."""
    round_trip_s: float = 0.002


@dataclass(frozen=True, slots=True)
class Disturbance:
    """`kind`: restart (killed, its calls are dropped, back after `length_s`), deploy (its calls move, then the same), flap (not
    ready for `length_s`), pause (no reports for `length_s`)."""

    at_s: float
    kind: str
    runtime: int
    length_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    about: str
    machines: Machines = field(default_factory=Machines)
    callers: Callers = field(default_factory=Callers)
    network: Network = field(default_factory=Network)
    balancers: int = 4
    traffic: tuple[float, ...] = ()
    """Relative traffic of the balancers; empty: equal."""
    sessions_each: float = 40.0
    """m: mean sessions a runtime at the usual arrival rate."""
    arrivals: Profile = _USUAL_ARRIVALS
    """Factor on the usual arrival rate."""
    most_arrivals: float = 1.0
    """The largest value of `arrivals`."""
    warm_up_s: float = 400.0
    measured_s: float = 600.0
    disturbances: tuple[Disturbance, ...] = ()

    @property
    def usual_rate_per_s(self) -> float:
        return self.machines.count * self.sessions_each / self.callers.mean_s

    @property
    def length_s(self) -> float:
        return self.warm_up_s + self.measured_s
