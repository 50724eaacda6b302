"""One suite over all policies: what every way to choose must keep. And each statement fails on a policy that breaks it.

A check takes a maker of policies and asserts. Named exceptions:

    renaming renames          not consistent_hash: names are what it goes by
    equals are drawn equally  consistent_hash only as evenly as its arcs are
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.fleet.fleet import BalancerLife, Fleet
from balancer.fleet.membership import MembershipRule
from balancer.fleet.registration import Registration
from balancer.routing.fleet_view import FleetView
from balancer.routing.policies import POLICIES
from balancer.routing.policies.session_aware import SessionAware, _Plan
from balancer.routing.policies.uniform_random import UniformRandom
from balancer.routing.policy import Choice, Policy, Question
from balancer.routing.request import PlacementRequest
from balancer.routing.router import Router
from balancer.routing.runtime_facts import RuntimeFacts
from runtime.primitives.clock import NS_PER_MS, NS_PER_S
from runtime.primitives.load_snapshot import LegTotals, LoadSnapshot, RuntimeState
from runtime.primitives.rng import Rng, SeededRng
from tests.balancer.support.fleets import NOW, RULE, Told, fleet

Maker = Callable[[], Policy]
Deliver = Callable[[Fleet, LoadSnapshot, int], object]

MIXED = (
    Told("idle", hard_limit=40),
    Told("busy", active=20, utilisation=0.7, hard_limit=40),
    Told("unknown", active=5, utilisation=None, hard_limit=40),
    Told("draining", state=RuntimeState.DRAINING),
    Told("starting", state=RuntimeState.STARTING),
    Told("full", active=8),
    Told("hot", overload=2, utilisation=0.95),
    Told("silent", ineligible="silence"),
    Told("stale", arrived_ns=NOW - 60 * NS_PER_S),
    Told("quiet", active=2, reserved=1, in_flight=1, hard_limit=40),
)
MAY_SERVE = {"idle", "busy", "unknown", "quiet"}


def router_of(make: Maker) -> Router:
    return Router(make(), max_report_age_ns=3 * NS_PER_S)


def decisions(make: Maker, view: FleetView, times: int, seed: int = 1) -> list[list[tuple[str, float]]]:
    """Candidates with scores of so many decisions for different sessions, 1 ms apart; nothing is placed between them."""
    one, rng = router_of(make), SeededRng(seed)
    made = (one.decide(PlacementRequest(f"s{n}"), view, NOW + n * NS_PER_MS, rng) for n in range(times))
    return [[(each.runtime_id, each.score) for each in decision.candidates] for decision in made]


# The checks


def check_distinct_and_only_of_those_who_may(make: Maker) -> None:
    for found in decisions(make, fleet(*MIXED), 100):
        names = [name for name, _ in found]
        assert 1 <= len(names) <= 3
        assert len(set(names)) == len(names)
        assert set(names) <= MAY_SERVE


def check_draining_never(make: Maker) -> None:
    view = fleet(*(Told(f"r{n}", state=RuntimeState.DRAINING if n % 2 else RuntimeState.READY) for n in range(8)))
    assert {name for found in decisions(make, view, 100) for name, _ in found} <= {f"r{n}" for n in range(0, 8, 2)}


def check_scores_are_finite(make: Maker) -> None:
    assert all(math.isfinite(score) for found in decisions(make, fleet(*MIXED), 60) for _, score in found)


def check_the_same_chance_gives_the_same_answers(make: Maker) -> None:
    assert decisions(make, fleet(*MIXED), 60, seed=3) == decisions(make, fleet(*MIXED), 60, seed=3)


def check_it_survives_that_runtimes_come_and_go(make: Maker) -> None:
    view, one, rng, chance = FleetView(RULE), router_of(make), SeededRng(1), SeededRng(2)
    for step in range(300):
        now_ns = NOW + step * 100 * NS_PER_MS
        name, drawn = f"r{int(chance.random() * 20)}", chance.random()
        if drawn < 0.3:
            view.remove(name)
        elif drawn < 0.4 and name in view:
            view.put(RuntimeFacts(name, 1, RuntimeState.DRAINING, hard_limit=8, agents=frozenset({"desk"})))
        else:
            Told(name, active=int(chance.random() * 7), arrived_ns=now_ns).tell(view)
        found = [each.runtime_id for each in one.decide(PlacementRequest(str(step)), view, now_ns, rng).candidates]
        assert len(set(found)) == len(found)
        for each in found:
            row = view.get(each)
            assert row is not None
            assert row.facts.state is RuntimeState.READY
            assert row.active < 8


def check_renaming_renames(make: Maker) -> None:
    renames = {each.name: f"{99 - place}-{each.name}" for place, each in enumerate(MIXED)}  # another order of names, too
    renamed = fleet(*(each.but(name=renames[each.name]) for each in MIXED))
    for was, now in zip(decisions(make, fleet(*MIXED), 40), decisions(make, renamed, 40), strict=True):
        assert [renames[name] for name, _ in was] == [name for name, _ in now]


def check_equals_are_drawn_equally(make: Maker, slack: float = 0.0) -> None:
    times, count = 1500, 5
    view = fleet(*(Told(f"r{n}", active=10, hard_limit=60) for n in range(count)))
    drawn = Counter(found[0][0] for found in decisions(make, view, times))
    share, sigma = times / count, math.sqrt(times * (1 / count) * (1 - 1 / count))
    assert all(abs(drawn[f"r{n}"] - share) <= 5 * sigma + slack * share for n in range(count)), drawn


def check_unknown_is_not_idle(make: Maker) -> None:
    times = 1500
    view = fleet(
        *(Told(name, active=10, hard_limit=60, utilisation=u) for name, u in (("idle", 0.02), ("busy", 0.75), ("unknown", None)))
    )
    drawn = Counter(found[0][0] for found in decisions(make, view, times))
    assert drawn["unknown"] <= (drawn["idle"] + drawn["busy"]) / 2 + 5 * math.sqrt(times * 2 / 9), drawn


def by_the_door(one: Fleet, report: LoadSnapshot, now_ns: int) -> object:
    return one.take_report(report, (), now_ns)


def heard(order: list[tuple[int, int]], deliver: Deliver) -> Fleet:
    """A fleet of four that was told reports (runtime, sequence) in this order, at 100 ms each."""
    one = Fleet(BalancerLife("b", 1), RULE, MembershipRule(), NOW)
    for runtime in range(4):
        one.enroll(Registration(f"r{runtime}", 1, "127.0.0.1:1", "127.0.0.1:2", 40, state=RuntimeState.READY), NOW)
    for runtime, sequence in order:
        active = (7 * runtime + 3 * sequence) % 11
        totals = LegTotals(started=20 + active, ended={"closed_by_caller": 20})
        report = LoadSnapshot(f"r{runtime}", 1, sequence, 0, 1, 0, active, 0, 40, totals, RuntimeState.READY, 0.02 * active)
        deliver(one, report, NOW + 100 * NS_PER_MS)
    return one


ALL_REPORTS = [(runtime, sequence) for sequence in range(1, 6) for runtime in range(4)]
NEWEST_FIRST = [*ALL_REPORTS[16:], *ALL_REPORTS[:16]]


def check_a_duplicate_report_is_no_news(make: Maker, deliver: Deliver = by_the_door) -> None:
    once, twice = heard(ALL_REPORTS, deliver), heard([each for each in ALL_REPORTS for _ in range(2)], deliver)
    assert once.view.rows() == twice.view.rows()
    assert once.view.version == twice.view.version
    assert once.view.load.news == twice.view.load.news
    assert decisions(make, once.view, 30) == decisions(make, twice.view, 30)


def check_reordering_ends_in_the_same_counts(make: Maker, deliver: Deliver = by_the_door) -> None:
    ordered, reordered = heard(ALL_REPORTS, deliver).view, heard(NEWEST_FIRST, deliver).view
    for name in ("active", "reserved", "own", "in_flight", "estimate", "hard_limit"):
        assert getattr(ordered.columns, name)[:4].tolist() == getattr(reordered.columns, name)[:4].tolist(), name
    assert len(decisions(make, reordered, 5)) == 5


CHECKS: tuple[Callable[[Maker], None], ...] = (
    check_distinct_and_only_of_those_who_may,
    check_draining_never,
    check_scores_are_finite,
    check_the_same_chance_gives_the_same_answers,
    check_it_survives_that_runtimes_come_and_go,
    check_renaming_renames,
    check_equals_are_drawn_equally,
    check_unknown_is_not_idle,
    check_a_duplicate_report_is_no_news,
    check_reordering_ends_in_the_same_counts,
)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_every_policy(check: Callable[[Maker], None], policy: str) -> None:
    if policy == "consistent_hash" and check is check_renaming_renames:
        pytest.skip("names are what it goes by")
    if policy == "consistent_hash" and check is check_equals_are_drawn_equally:
        check_equals_are_drawn_equally(POLICIES[policy], slack=0.15)
    else:
        check(POLICIES[policy])


# The suite can fail


class Broken(UniformRandom):
    """A policy like any other, but for one thing."""


class Repeats(Broken):
    def order(self, question: Question, rng: Rng) -> list[Choice]:
        return [super().order(question, rng)[0]] * question.count


class Strays(Broken):
    def order(self, question: Question, rng: Rng) -> list[Choice]:
        return [Choice(slot, 0.0) for slot in question.view.slots()][-question.count :]


class ForgetsThatTheyDrain(Broken):
    def order(self, question: Question, rng: Rng) -> list[Choice]:
        return [Choice(1, 0.0)]


class Infinite(Broken):
    def order(self, question: Question, rng: Rng) -> list[Choice]:
        return [Choice(each.slot, math.inf) for each in super().order(question, rng)]


_OWN_CHANCE = itertools.count()


class OwnChance(Broken):
    def order(self, question: Question, rng: Rng) -> list[Choice]:
        kept = question.pool.kept
        return [Choice(int(kept[next(_OWN_CHANCE) % 7 % kept.shape[0]]), 0.0)]


class Remembers(Broken):
    def __init__(self) -> None:
        self.first: list[Choice] = []

    def order(self, question: Question, rng: Rng) -> list[Choice]:
        self.first = self.first or super().order(question, rng)
        return self.first


class Alphabetical(Broken):
    def order(self, question: Question, rng: Rng) -> list[Choice]:
        slots = sorted(question.pool.kept.tolist(), key=lambda slot: question.view.facts(slot).runtime_id)
        return [Choice(slot, 0.0) for slot in slots[: question.count]]


class FirstOfAll(Broken):
    def order(self, question: Question, rng: Rng) -> list[Choice]:
        return [Choice(int(slot), 0.0) for slot in question.pool.kept[: question.count]]


class UnknownIsIdle(Broken):
    def order(self, question: Question, rng: Rng) -> list[Choice]:
        kept = question.pool.kept
        used = np.nan_to_num(question.view.columns.utilisation[kept], nan=0.0)
        return [Choice(int(kept[place]), float(used[place])) for place in used.argsort()[: question.count]]


def whatever_comes(one: Fleet, report: LoadSnapshot, now_ns: int) -> None:
    """A door that looks at no sequence."""
    seat = one.seat(report.runtime_id)
    assert seat is not None
    one.view.put(RuntimeFacts(report.runtime_id, 1, RuntimeState.READY, hard_limit=40))
    one.view.report_snapshots([seat.slot], [report], [report.utilisation], now_ns)


def bound(check: Callable[..., None]) -> Callable[[Maker], None]:
    return lambda make: check(make, whatever_comes)


FAILURES: tuple[tuple[Callable[[Maker], None], type[Broken]], ...] = (
    (check_distinct_and_only_of_those_who_may, Repeats),
    (check_distinct_and_only_of_those_who_may, Strays),
    (check_draining_never, ForgetsThatTheyDrain),
    (check_scores_are_finite, Infinite),
    (check_the_same_chance_gives_the_same_answers, OwnChance),
    (check_it_survives_that_runtimes_come_and_go, Remembers),
    (check_renaming_renames, Alphabetical),
    (check_equals_are_drawn_equally, FirstOfAll),
    (check_unknown_is_not_idle, UnknownIsIdle),
    (bound(check_a_duplicate_report_is_no_news), Broken),
    (bound(check_reordering_ends_in_the_same_counts), Broken),
)


@pytest.mark.parametrize(("check", "broken"), FAILURES, ids=lambda each: getattr(each, "__name__", "?"))
def test_the_suite_can_fail(check: Callable[[Maker], None], broken: type[Broken]) -> None:
    with pytest.raises(AssertionError):
        check(broken)


# session_aware: the plan

rooms = st.lists(st.tuples(st.integers(0, 30), st.integers(33, 60)), min_size=1, max_size=12)


def plan_of(make: Callable[[], SessionAware], rows: list[tuple[int, int]]) -> _Plan:
    view = fleet(*(Told(f"r{n}", active=active, hard_limit=limit) for n, (active, limit) in enumerate(rows)))
    one = router_of(make)
    policy = one.policy
    assert isinstance(policy, SessionAware)
    pool = one._pool(PlacementRequest("s"), view, NOW)
    return policy._make(Question(view, pool, PlacementRequest("s"), 3, NOW))


def check_more_load_never_raises_a_chance(make: Callable[[], SessionAware], rows: list[tuple[int, int]], which: int) -> None:
    which %= len(rows)
    active, limit = rows[which]
    before = plan_of(make, rows)
    after = plan_of(make, [*rows[:which], (active + 1, limit), *rows[which + 1 :]])
    if len(rows) == after.gaps.shape[0] == before.gaps.shape[0]:
        assert after.gaps[which] / after.total <= before.gaps[which] / before.total + 1e-12


def check_chances_are_chances(make: Callable[[], SessionAware], rows: list[tuple[int, int]]) -> None:
    plan = plan_of(make, rows)
    chances = plan.gaps / plan.total
    assert np.isfinite(chances).all()
    assert (chances >= 0.0).all()
    assert chances.sum() == pytest.approx(1.0)
    assert plan.cumulative[-1] == pytest.approx(plan.total)


@given(rooms, st.integers(0, 11))
def test_more_load_never_raises_a_chance(rows: list[tuple[int, int]], which: int) -> None:
    check_more_load_never_raises_a_chance(SessionAware, rows, which)


@given(rooms)
def test_chances_are_chances(rows: list[tuple[int, int]]) -> None:
    check_chances_are_chances(SessionAware, rows)


class LikesTheFull(SessionAware):
    def _make(self, question: Question) -> _Plan:
        plan = super()._make(question)
        plan.gaps = question.view.columns.load[question.pool.kept] + 1.0
        plan.total = float(plan.gaps.sum())
        return plan


class LosesSome(SessionAware):
    def _make(self, question: Question) -> _Plan:
        plan = super()._make(question)
        plan.gaps = plan.gaps * 0.9
        return plan


class MakesNaN(SessionAware):
    def _make(self, question: Question) -> _Plan:
        plan = super()._make(question)
        plan.gaps = plan.gaps * np.nan
        return plan


def test_the_checks_of_the_plan_can_fail() -> None:
    rows = [(3, 40), (8, 40), (20, 40)]
    with pytest.raises(AssertionError):
        check_more_load_never_raises_a_chance(LikesTheFull, rows, 1)
    for broken in (LosesSome, MakesNaN):
        with pytest.raises(AssertionError):
            check_chances_are_chances(broken, rows)


def test_checks_are_named() -> None:
    """Each check of the suite is seen to fail above."""
    seen: set[Any] = {check for check, _ in FAILURES}
    seen |= {check_a_duplicate_report_is_no_news, check_reordering_ends_in_the_same_counts}  # with a broken door
    assert set(CHECKS) <= seen
