"""The router: each filter, the explanation, overload of the fleet, and what holds for every policy."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balancer.capacity.effective_capacity import CapacityRule
from balancer.routing.fleet_view import FleetView
from balancer.routing.load_rule import LoadRule
from balancer.routing.policies import POLICIES
from balancer.routing.request import Priority
from runtime.primitives.clock import NS_PER_S
from runtime.primitives.load_snapshot import RuntimeState
from runtime.primitives.reasons import RefusalReason
from runtime.primitives.rng import SeededRng
from tests.balancer.support.fleets import ASK, NOW, Told, decide, fleet, names, router

R1 = LoadRule()


# requirement R3
@pytest.mark.parametrize(
    ("changes", "request_changes", "reason", "words"),
    [
        ({"state": RuntimeState.DRAINING}, {}, RefusalReason.DRAINING, "draining"),
        ({"state": RuntimeState.STARTING}, {}, RefusalReason.NOT_READY, "starting"),
        ({"state": RuntimeState.OFFLINE}, {}, RefusalReason.NOT_READY, "offline"),
        ({"ineligible": "silent for 2.6 s"}, {}, RefusalReason.UNREACHABLE, "silent"),
        ({"arrived_ns": None}, {}, RefusalReason.STALE_REPORT, "no load report"),
        ({"arrived_ns": NOW - 3 * NS_PER_S - 1}, {}, RefusalReason.STALE_REPORT, "3.0 s old"),
        ({}, {"agent": "other"}, RefusalReason.UNSUITABLE, "agent"),
        ({}, {"abilities": frozenset({"book", "fly"})}, RefusalReason.UNSUITABLE, "fly"),
        ({}, {"min_version": (1, 3)}, RefusalReason.UNSUITABLE, "version"),
        ({"context_window": 100}, {"context_window": 101}, RefusalReason.NO_HEADROOM, "0+0+0 of 8"),
        ({}, {"only_runtime": "r9"}, RefusalReason.UNSUITABLE, "already"),
        ({}, {"avoid": frozenset({"r1"})}, RefusalReason.UNREACHABLE, "could not be reached"),
        ({"overload": 2}, {}, RefusalReason.OVERLOAD, "utilisation 0.20"),
        ({"overload": 1}, {"priority": Priority.LOW}, RefusalReason.OVERLOAD, "utilisation 0.20"),
        ({"active": 5, "reserved": 2, "in_flight": 1}, {}, RefusalReason.LIMIT, "5+2+1 of 8"),
        ({"active": 5, "utilisation": 0.78}, {}, RefusalReason.NO_HEADROOM, "effective 5.1"),
        ({"hard_limit": 0}, {}, RefusalReason.LIMIT, "of 0"),
        ({"active": 5, "utilisation": None}, {}, RefusalReason.NO_HEADROOM, "unknown"),
    ],
)
def test_each_filter_refuses_with_its_reason(
    changes: dict[str, object], request_changes: dict[str, object], reason: RefusalReason, words: str
) -> None:
    view = fleet(Told("r1").but(**changes), rule=R1)
    decision = decide(view, replace(ASK, **request_changes))  # type: ignore[arg-type]  # the fields of one request
    assert decision.candidates == []
    assert [(each.runtime_id, each.reason) for each in decision.refusals] == [("r1", reason)]
    assert words in decision.refusals[0].detail
    assert "none of 1" in decision.reason
    # Beside a good one, only the good one is chosen.
    good = Told("good", agents=frozenset({"desk", "other"}), abilities=frozenset({"book", "fly"}), version=(2,))
    good.tell(view)
    if "only_runtime" not in request_changes:
        assert names(decide(view, decision.request)) == ["good"]


def test_an_empty_fleet_says_so() -> None:
    decision = decide(FleetView())
    assert (decision.candidates, decision.refusals) == ([], ())
    assert decision.reason == "no runtime is enrolled"


def test_the_reason_is_one_readable_sentence() -> None:
    decision = decide(fleet(Told("a", in_flight=1), Told("b", active=3), Told("c", active=4), Told("d", active=8)))
    assert names(decision)[0] == "a"
    assert sorted(names(decision)) == ["a", "b", "c"]
    assert decision.reason == (
        "drawn by its room below the common level of 3 with room: 0+0+1 of 8 (effective 8.0); report 0.4 s old"
    )
    assert decision.removed == (("hard_limit", 1),)
    assert decision.explain(decision.candidates[1]).startswith("choice 2 (the ones before were fuller or gave no place)")


def test_region_is_a_preference() -> None:
    view = fleet(Told("far", region="us"), Told("near", active=6))
    near = decide(view, replace(ASK, region="eu"))
    assert names(near) == ["near"]
    assert not near.cross_region
    away = decide(view, replace(ASK, region="asia"))
    assert away.cross_region
    assert names(away)[0] == "far"
    assert "cross-region from asia" in away.reason


def test_order_is_by_share_of_capacity_not_by_count() -> None:
    view = fleet(Told("small", hard_limit=4, active=2), Told("large", hard_limit=40, active=10))
    assert all(names(decide(view, seed=seed))[0] == "large" for seed in range(20))


def test_a_debited_decision_is_visible_to_the_next() -> None:  # bugs B19, B20
    view = fleet(*(Told(name) for name in "abcd"))
    one, rng = router(), SeededRng(1)
    served: Counter[str] = Counter()
    for _ in range(31):  # the last place is kept for high priority
        chosen = one.decide(ASK, view, NOW, rng).candidates[0]
        served[chosen.runtime_id] += 1
        view.place(chosen.slot, NOW)
        assert max(served.values()) - min(served[name] for name in "abcd") <= 1  # equal runtimes fill evenly
    assert sum(served.values()) == 31


def test_a_full_fleet_keeps_its_last_places_for_high_priority() -> None:  # requirement R6
    view = fleet(*(Told(name, hard_limit=10, active=9) for name in "abc"))
    one, rng = router(), SeededRng(1)

    def outcome(priority: Priority) -> tuple[bool, set[RefusalReason]]:
        decision = one.decide(replace(ASK, priority=priority), view, NOW, rng)
        return bool(decision.candidates), {each.reason for each in decision.refusals}

    assert outcome(Priority.LOW) == (False, {RefusalReason.OVERLOAD})  # 27 of 30
    assert outcome(Priority.NORMAL)[0]
    for _ in range(2):
        view.place(one.decide(replace(ASK, priority=Priority.HIGH), view, NOW, rng).candidates[0].slot, NOW)
    assert outcome(Priority.NORMAL) == (False, {RefusalReason.OVERLOAD})  # 29 of 30
    assert outcome(Priority.HIGH)[0]
    assert "too full for normal priority" in one.decide(ASK, view, NOW, rng).reason
    view.end(0)
    assert outcome(Priority.NORMAL) == (False, {RefusalReason.OVERLOAD})  # 28: hysteresis
    for slot in (1, 2):
        view.end(slot)
    assert outcome(Priority.NORMAL)[0]  # 26


@pytest.mark.parametrize(("hot", "takes_part"), [(3, False), (7, True)])
def test_the_overload_of_most_is_no_runtime_s_own(hot: int, takes_part: bool) -> None:  # requirement R3
    told = [Told(f"hot{number}", utilisation=0.92, overload=2) for number in range(hot)]
    view = fleet(*told, *(Told(f"cool{number}") for number in range(10 - hot)))
    decision = decide(view, policy="random")
    assert decision.with_room == (10 if takes_part else 10 - hot)


def test_equal_runtimes_are_drawn_equally() -> None:
    view = fleet(*(Told(name) for name in "abcde"))
    one, rng = router(), SeededRng(3)
    served = Counter(one.decide(ASK, view, NOW, rng).candidates[0].runtime_id for _ in range(5000))
    assert all(abs(times - 1000) < 150 for times in served.values())


def test_a_policy_is_changed_between_two_decisions() -> None:  # requirement R4
    view = fleet(Told("a", active=5), Told("b"))
    one, rng = router(), SeededRng(1)
    assert one.decide(ASK, view, NOW, rng).policy == "session_aware"
    one.use(POLICIES["random"]())
    seen = {one.decide(ASK, view, NOW, rng).candidates[0].runtime_id for _ in range(50)}
    assert seen == {"a", "b"}
    assert one.decide(ASK, view, NOW, rng).policy == "random"


def test_a_report_that_grows_too_old_takes_its_runtime_out_and_a_fresh_one_brings_it_back() -> None:
    view = fleet(Told("a"), Told("b", arrived_ns=NOW))
    one, rng = router(), SeededRng(1)
    assert sorted(names(one.decide(ASK, view, NOW, rng))) == ["a", "b"]
    later = NOW + 28 * NS_PER_S // 10
    assert names(one.decide(ASK, view, later, rng)) == ["b"]
    Told("a", arrived_ns=later).tell(view)
    assert sorted(names(one.decide(ASK, view, later, rng))) == ["a", "b"]


told = st.builds(
    Told,
    name=st.sampled_from("abcdefgh"),
    state=st.sampled_from(RuntimeState),
    active=st.integers(0, 12),
    reserved=st.integers(0, 3),
    in_flight=st.integers(0, 3),
    hard_limit=st.integers(0, 12),
    utilisation=st.one_of(st.none(), st.floats(0.0, 1.2)),
    overload=st.integers(0, 3),
    ineligible=st.sampled_from(["", "gone"]),
)
fleets = st.lists(told, max_size=8, unique_by=lambda each: each.name)


@settings(max_examples=200)
@given(fleets, st.integers(0, 50), st.sampled_from(sorted(POLICIES)), st.sampled_from(Priority))
def test_whoever_is_chosen_may_serve(given_fleet: list[Told], seed: int, policy: str, priority: Priority) -> None:
    view = fleet(*given_fleet, rule=LoadRule(CapacityRule()))
    decision = decide(view, replace(ASK, priority=priority), policy=policy, seed=seed)
    chosen = names(decision)
    assert len(set(chosen)) == len(chosen) <= 3
    for name in chosen:
        row = view.get(name)
        assert row is not None
        assert row.facts.state is RuntimeState.READY  # bug B34
        assert not row.facts.ineligible  # bug B36
        assert row.overload < {Priority.LOW: 1, Priority.NORMAL: 2, Priority.HIGH: 3}[priority]
        assert row.estimate < row.hard_limit
        if policy == "session_aware":
            assert row.load + 1 <= row.effective + 0.05
    if not chosen and not decision.is_overloaded:
        assert {each.runtime_id for each in decision.refusals} == {each.name for each in given_fleet}


def test_after_the_drawn_one_the_emptiest_follow_and_never_by_their_place() -> None:
    told = [Told("r0", hard_limit=100), *(Told(f"r{n}", hard_limit=100, active=20 + n // 3) for n in range(1, 10))]
    view = fleet(*told)
    seconds = Counter(names(decide(view, seed=seed))[1] for seed in range(60))
    assert set(seconds) == {"r1", "r2"}
    assert min(seconds.values()) > 15


def test_who_asks_again_for_a_held_place_gets_it_however_full_the_fleet_is() -> None:
    view = fleet(*(Told(name, active=7, reserved=1) for name in "abc"))
    assert names(decide(view, replace(ASK, only_runtime="b"))) == ["b"]
    assert names(decide(view)) == []
