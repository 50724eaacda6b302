"""The picture of load: what others place, whom one still believes, what machines and callers cost, what nobody knows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from balancer.capacity.effective_capacity import CapacityRule
from balancer.routing.fleet_view import FleetView
from balancer.routing.load_rule import LoadRule
from balancer.routing.reports import Reports
from balancer.routing.runtime_facts import RuntimeFacts
from runtime.primitives.clock import NS_PER_S
from runtime.primitives.load_snapshot import RuntimeState
from tests.balancer.support.chance import Chance

SECOND = NS_PER_S


class Told:
    """A fleet of like runtimes that report together."""

    def __init__(self, count: int, rule: LoadRule | None = None, hard_limit: int = 100) -> None:
        self.view = FleetView(rule or LoadRule(report_interval_s=10.0))
        self.slots = np.array(
            [self.view.put(RuntimeFacts(f"r{n}", 1, RuntimeState.READY, hard_limit=hard_limit)) for n in range(count)], np.intp
        )
        self.limit = np.full(count, float(hard_limit))
        self.now_ns = 1000 * SECOND
        self.started = np.zeros(count)
        self.ended = np.zeros(count)

    def report(self, active: np.ndarray | list[float], utilisation: np.ndarray | list[float], known: float | None = None) -> None:
        held = np.array(active, np.float64)
        reports = Reports(
            self.slots, held, np.zeros_like(held), self.limit, np.array(utilisation, np.float64),
            self.started.copy(), self.ended.copy(), np.zeros_like(held),
        )  # fmt: skip
        self.view.report(reports, self.now_ns, held if known is None else np.full(held.shape, known))

    def later(self, seconds: float) -> None:
        self.now_ns += int(seconds * SECOND)
        self.view.load.refresh(self.now_ns)

    def column(self, name: str) -> list[float]:
        found: list[float] = getattr(self.view.columns, name)[self.slots].tolist()
        return found


# What others place


def test_starts_that_are_not_ours_are_the_others_inflow() -> None:
    told = Told(4)
    told.report([10.0] * 4, [0.2] * 4)
    for _ in range(30):  # 2 starts a second in the whole fleet, none of them ours
        told.later(10.0)
        told.started += 5.0
        told.ended += 5.0
        told.report([10.0] * 4, [0.2] * 4)
    assert told.view.load.start_rate(told.now_ns) == pytest.approx(2.0, rel=0.2)
    before = sum(told.column("estimate"))
    for _ in range(10):
        told.later(1.0)
    assert sum(told.column("estimate")) == pytest.approx(before + 20.0, rel=0.2)  # expected, until the next reports tell
    assert sum(told.column("others")) == pytest.approx(20.0, rel=0.2)
    told.started += 5.0
    told.report([10.0] * 4, [0.2] * 4)
    assert told.column("others") == [0.0] * 4


def test_our_own_starts_are_counted_once() -> None:
    told = Told(2)
    told.report([0.0, 0.0], [0.02, 0.02])
    for number in range(40):
        told.later(0.5)
        slot = number % 2
        told.view.place(slot, told.now_ns)
        told.view.settle(slot, contained=True)
        told.view.answer(slot, number // 2 + 1, 0, told.now_ns, number // 2 + 1)
    told.started += 20.0
    told.report([20.0, 20.0], [0.3, 0.3])
    assert told.view.load.start_rate(told.now_ns) == pytest.approx(2.0, rel=0.3)  # not twice that
    assert told.column("others") == [0.0, 0.0]
    told.later(5.0)
    assert sum(told.column("others")) == pytest.approx(0.0, abs=0.2)


def test_sessions_of_which_we_hear_no_end_fade_at_the_fleet_s_end_rate() -> None:
    told = Told(2)
    told.report([40.0, 40.0], [0.4, 0.4], known=0.0)
    told.later(20.0)
    assert told.column("estimate") == pytest.approx([40.0 * math.exp(-20 / 180)] * 2, rel=0.01)
    told.view.end(0)
    assert told.column("estimate")[0] == pytest.approx(40.0 * math.exp(-20 / 180) - 1.0, rel=0.01)


# Whom one still believes


def test_a_silent_runtime_fades_to_the_fleet_s_mean_and_a_deviation() -> None:
    told = Told(5)
    told.report([2.0, 50.0, 50.0, 50.0, 60.0], [0.1, 0.5, 0.5, 0.5, 0.6])
    silent, others = told.slots[:1], told.slots[1:]
    loads = []
    for _ in range(11):
        told.later(10.0)
        told.slots = others
        limit, told.limit, started, ended = told.limit, told.limit[1:], told.started, told.ended
        told.started, told.ended = started[1:], ended[1:]
        told.report([50.0, 50.0, 50.0, 60.0], [0.5, 0.5, 0.5, 0.6])
        told.slots, told.limit, told.started, told.ended = np.concatenate((silent, others)), limit, started, ended
        told.view.load.refresh(told.now_ns)
        loads.append(told.column("load")[0])
    assert loads[2] == pytest.approx(2.0)  # three intervals: believed
    assert loads[3] > 2.0
    assert loads == sorted(loads)
    assert loads[-1] > 50.0  # ten: taken for fuller than the mean
    assert told.column("estimate")[0] == pytest.approx(2.0)  # what it said stays what it said


def test_a_word_that_is_heard_again_is_believed_at_once() -> None:
    told = Told(3)
    told.report([2.0, 50.0, 50.0], [0.1, 0.5, 0.5])
    told.later(100.0)
    assert told.column("load")[0] > 2.0
    told.report([2.0, 50.0, 50.0], [0.1, 0.5, 0.5])
    assert told.column("load")[0] == pytest.approx(2.0)


# What machines and callers cost


def learned(slownesses: list[float], dearness: list[float], windows: int = 90) -> Told:
    """u = 0.02 + 0.01 * slowness * dearness * n, loads that move so that the curve can be seen."""
    told = Told(len(slownesses), LoadRule(report_interval_s=10.0, mean_life_s=180.0), hard_limit=200)
    factor = np.array(slownesses) * np.array(dearness)
    chance = Chance(1)
    for number in range(windows):
        active = np.full(len(slownesses), float(20 + 10 * math.sin(number / 15)))
        active = np.round(active)
        noise = 1.0 + np.sqrt(0.05 / active) * chance.normal(active.shape[0])
        told.report(active, 0.02 + 0.01 * factor * active * noise)
        told.later(10.0)
    return told


def test_a_slow_machine_has_less_room() -> None:
    told = learned([2.0, *[18 / 19] * 19], [1.0] * 20)
    capacity = told.column("capacity")
    assert told.view.load.curve is not None
    assert told.view.load.factors.speed[0] == pytest.approx(2.0, rel=0.1)
    assert capacity[0] < 0.65 * np.mean(capacity[1:])
    assert max(told.column("effective")) <= told.view.load.curve.reach * 1.2


def test_the_mix_of_callers_is_part_of_the_load_and_strangers_are_of_mean_cost() -> None:
    told = Told(2)
    told.report([20.0, 20.0], [0.3, 0.3])
    told.view.load.factors.mix[:2] = [1.5, 1.0]
    told.later(0.5)
    assert told.column("load") == pytest.approx([30.0, 20.0])
    assert told.column("estimate") == pytest.approx([20.0, 20.0])
    told.view.place(0, told.now_ns)  # a newcomer is no dearer than any
    assert told.column("load")[0] == pytest.approx(31.0)


# What nobody knows


def test_an_unknown_utilisation_is_the_others_mean_and_a_deviation() -> None:
    told = Told(3, LoadRule(CapacityRule(), learns_capacity=False))
    told.report([10.0, 10.0, 10.0], [0.2, 0.4, math.nan])
    effective = told.column("effective")
    mean, deviation = 0.3, 0.1
    assert effective[2] == pytest.approx(10.0 * (1 + (0.8 / (mean + deviation) - 1) / 2))
    assert effective[0] > effective[2]


def test_where_nobody_is_known_there_is_no_room_but_for_what_is_there() -> None:
    told = Told(2, LoadRule(CapacityRule(), learns_capacity=False))
    told.report([10.0, 0.0], [math.nan, math.nan])
    assert told.column("effective") == [10.0, 0.0]
    assert told.column("is_capped") == [True, True]


def test_the_sums_of_the_fleet_follow_every_single_change() -> None:
    told = Told(4)
    told.report([10.0, 20.0, 30.0, 40.0], [0.1, 0.2, 0.3, 0.4])
    told.view.put(RuntimeFacts("r3", 1, RuntimeState.DRAINING, hard_limit=100))
    told.view.place(0, told.now_ns)
    told.view.end(1)
    load = told.view.load
    running = load.load_now
    load.recount()
    assert running == pytest.approx(load.load_now) == pytest.approx((11 + 19 + 30) / 300)
    for name in ("r0", "r1", "r2"):
        told.view.remove(name)
    assert load.load_now == 1.0  # nobody serves
    assert load.fair_share_per_s(0, told.now_ns) == 0.0


def test_one_stuck_meter_does_not_tell_the_fleet_what_a_session_costs() -> None:
    fleet = Told(10, hard_limit=60)
    honest = np.full(10, 0.4)
    for round_ in range(60):
        fleet.later(10.0)
        stuck = honest.copy()
        stuck[0] = 3.0 if round_ > 10 else 0.4
        fleet.report([20.0] * 10, stuck)
        fleet.view.load.refresh(fleet.now_ns)
        if round_ == 10:
            before = fleet.view.columns.capacity[1]
    # Neither less than before nor more than the truth, which is 0.8 / 0.02: taken for a slow machine, it shows higher loads.
    assert (fleet.view.columns.capacity[1:10] > 0.85 * before).all()
    assert (fleet.view.columns.capacity[1:10] < 40.0).all()
    assert fleet.view.load.load_now < 0.9


def test_a_counter_that_jumps_is_no_rush_of_callers() -> None:
    fleet = Told(10)
    for _ in range(3):
        fleet.later(10.0)
        fleet.report([20.0] * 10, [0.3] * 10)
    fleet.started[3] += 1e9
    fleet.ended[3] += 1e9
    fleet.later(10.0)
    fleet.report([20.0] * 10, [0.3] * 10)
    for _ in range(20):
        fleet.later(1.0)
        fleet.view.load.refresh(fleet.now_ns)
        assert fleet.view.columns.estimate[:10].max() < 40.0


def test_our_own_starts_are_not_counted_again_as_others() -> None:
    fleet = Told(1)
    fleet.later(10.0)
    fleet.report([0.0], [0.1])
    for number in range(1, 60):
        fleet.view.place(0, fleet.now_ns)
        fleet.view.settle(0, contained=True)
        held = np.array([float(number - 1)])
        reserved = Reports(
            fleet.slots, held, np.ones(1), fleet.limit, np.array([0.1]), fleet.started.copy(), fleet.ended.copy(), np.zeros(1)
        )
        fleet.view.report(reserved, fleet.now_ns, held)  # while the caller dials
        fleet.later(1.0)
        fleet.started += 1.0
        fleet.report([float(number)], [0.1])
    assert fleet.view.load.start_rate(fleet.now_ns) == pytest.approx(1.0, rel=0.25)


def test_whatever_a_filter_goes_by_makes_another_version() -> None:
    """A pool of who may serve is kept until the version changes: a saturated crowd, or less context, must not stay in it."""
    told = Told(10)
    told.report([10.0] * 10, [0.95] * 10)
    told.report([10.0] * 10, [0.951] * 10)
    before = told.view.version
    told.report([10.0] * 10, [0.951] * 10)
    assert told.view.version == before
    told.report([10.0] * 10, [0.951] * 9 + [0.98])
    assert told.view.version != before
    before = told.view.version
    held = np.full(10, 10.0)
    reports = Reports(
        told.slots, held, np.zeros(10), told.limit, np.array([0.951] * 9 + [0.98]),
        told.started.copy(), told.ended.copy(), np.zeros(10), context_window=np.full(10, 100.0),
    )  # fmt: skip
    told.view.report(reports, told.now_ns, held)
    assert told.view.version != before


def test_one_lying_counter_of_ends_does_not_empty_the_fleet() -> None:
    told = Told(10)
    for _ in range(3):
        told.later(10.0)
        told.report([10.0] * 10, [0.3] * 10)
    usual = told.view.load.ends.per_s
    told.later(10.0)
    told.ended[3] += 1e12
    told.started[3] += 1e12
    told.report([10.0] * 10, [0.3] * 10)
    assert told.view.load.ends.per_s < 2.0 * usual


def test_a_large_fleet_learns_and_is_brought_up_to_date_in_two_steps() -> None:
    """Together they would hold up the event loop; nothing is left out."""
    told = Told(2001)
    for _ in range(3):
        told.report([10.0] * 2001, [0.3] * 2001)
        told.later(10.0)
    told.view.place(0, told.now_ns)
    told.now_ns += SECOND
    assert told.view.load.refresh(told.now_ns)  # a whole second later: both at once, so that nothing is decided on old news
    told.now_ns += SECOND - 1
    assert told.view.load.refresh(told.now_ns)
    told.now_ns += 1
    assert not told.view.load.refresh(told.now_ns)  # it learned
    assert told.view.load.refresh(told.now_ns)  # and the rest
