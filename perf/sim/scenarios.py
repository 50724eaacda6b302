"""The scenarios by name. All are of 100 runtimes and 4 balancers unless they say otherwise; both can be set from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from perf.sim.model import Callers, Disturbance, Machines, Network, Scenario

__all__ = ["SCENARIOS", "scenario"]

_WARM_UP_S: Final = 240.0
_MEASURED_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Step:
    """`before`, then `after` from `at_s` of the measured time on, until `until_s`."""

    before: float
    after: float
    at_s: float
    until_s: float = float("inf")

    def __call__(self, at_s: float) -> float:
        return self.after if self.at_s <= at_s < self.until_s else self.before


def _base(name: str, about: str) -> Scenario:
    return Scenario(name, about, warm_up_s=_WARM_UP_S, measured_s=_MEASURED_S)


def _steady() -> Scenario:
    return _base("steady", "calls come and go at an even rate")


def _burst() -> Scenario:
    made = _base("burst", "three times the calls for three minutes, with room for them")
    return replace(made, sessions_each=15.0, arrivals=Step(1.0, 3.0, 60.0, 240.0), most_arrivals=3.0)


def _flood() -> Scenario:
    made = _base("flood", "more calls than the fleet can hold: 1.4 times its capacity")
    return replace(made, sessions_each=56.0, arrivals=Step(0.75, 1.4, 0.0), most_arrivals=1.4)


def _stale_reports() -> Scenario:
    return replace(
        _base("stale_reports", "a report every 30 s, ten seconds on its way"),
        network=Network(report_interval_s=30.0, report_delay_s=10.0),
    )


def _report_loss() -> Scenario:
    return replace(_base("report_loss", "30 % of the reports never arrive"), network=Network(loss=0.3))


def _mixed_hardware() -> Scenario:
    made = _base("mixed_hardware", "machines of once, half and a quarter of the speed, unannounced")
    return replace(made, machines=Machines(slownesses=(1.0, 2.0, 4.0)), sessions_each=22.0, warm_up_s=300.0)


def _mixed_cost() -> Scenario:
    made = _base("mixed_cost", "every second caller costs four times as much, unannounced")
    return replace(made, callers=Callers(costs=((1.0, 0.5), (4.0, 0.5))))


def _silent_then_all_speak() -> Scenario:
    made = _base("silent_then_all_speak", "callers listen for minutes, then all talk at once for one")
    return replace(made, callers=Callers(talking=Step(0.05, 1.0, 180.0, 240.0)), sessions_each=35.0)


def _restart() -> Scenario:
    kills = tuple(Disturbance(20.0 + 40.0 * number, "restart", 7 * number + 1, 10.0) for number in range(5))
    return replace(_base("restart", "five runtimes are killed one after the other and come back empty"), disturbances=kills)


def _rolling_deploy() -> Scenario:
    def deploys(runtimes: int) -> tuple[Disturbance, ...]:
        pace_s = 0.7 * _MEASURED_S / runtimes
        return tuple(Disturbance(20.0 + pace_s * number, "deploy", number, 4.0) for number in range(runtimes))

    return replace(
        _base("rolling_deploy", "every runtime is drained, its calls move, and it restarts"), disturbances=deploys(100)
    )


def _many_balancers(count: int) -> Scenario:
    made = _base(f"many_balancers_{count}", f"{count} balancers that know nothing of each other")
    return replace(made, balancers=count)


def _flapping() -> Scenario:
    flaps = tuple(
        Disturbance(10.0 * turn + number, "flap", number, 3.0)
        for turn in range(int(_MEASURED_S / 10.0)) for number in range(5)
    )  # fmt: skip
    return replace(_base("flapping", "five runtimes say not ready for three of every ten seconds"), disturbances=flaps)


def _clock_jumps() -> Scenario:
    made = _base("clock_jumps", "reports doubled, up to 12 s late and out of order, 5 % with a senseless CPU")
    return replace(made, network=Network(duplicates=0.3, report_jitter_s=12.0, garbage=0.05))


def _unequal_traffic() -> Scenario:
    made = _base("unequal_traffic", "one balancer has 70 % of the calls, three share the rest")
    return replace(made, traffic=(7.0, 1.0, 1.0, 1.0))


def _tight() -> Scenario:
    return replace(_base("tight", "the fleet is at 90 % of its capacity"), sessions_each=50.5)


def _small() -> Scenario:
    made = _base("small", "three runtimes, ten calls each, two balancers")
    return replace(made, machines=Machines(count=3, k=0.035, hard_limit=20), sessions_each=10.0, balancers=2)


SCENARIOS: Final[Mapping[str, Callable[[], Scenario]]] = MappingProxyType(
    {
        "steady": _steady,
        "burst": _burst,
        "flood": _flood,
        "stale_reports": _stale_reports,
        "report_loss": _report_loss,
        "mixed_hardware": _mixed_hardware,
        "mixed_cost": _mixed_cost,
        "silent_then_all_speak": _silent_then_all_speak,
        "restart": _restart,
        "rolling_deploy": _rolling_deploy,
        "many_balancers_8": lambda: _many_balancers(8),
        "many_balancers_64": lambda: _many_balancers(64),
        "flapping": _flapping,
        "clock_jumps": _clock_jumps,
        "unequal_traffic": _unequal_traffic,
        "tight": _tight,
        "small": _small,
    }
)


def scenario(
    name: str,
    runtimes: int | None = None,
    balancers: int | None = None,
    sessions_each: float | None = None,
    warm_up_s: float | None = None,
    measured_s: float | None = None,
) -> Scenario:
    """The named one, with other sizes where given. Raises KeyError for an unknown name."""
    made = SCENARIOS[name]()
    if runtimes is not None and name != "small":
        kept = tuple(each for each in made.disturbances if each.runtime < runtimes)
        made = replace(made, machines=replace(made.machines, count=runtimes), disturbances=kept)
    if balancers is not None and not name.startswith("many_balancers"):
        traffic = made.traffic if len(made.traffic) == balancers else ()
        made = replace(made, balancers=balancers, traffic=traffic)
    if sessions_each is not None:
        made = replace(made, sessions_each=sessions_each)
    if warm_up_s is not None:
        made = replace(made, warm_up_s=warm_up_s)
    if measured_s is not None:
        made = replace(made, measured_s=measured_s)
    return made
