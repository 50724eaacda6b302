"""The router: each filter, the explanation, and the invariants of session_aware."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balancer.routing.decision import Decision
from balancer.routing.fleet_view import FleetView, RuntimeRow
from balancer.routing.policies import POLICIES
from balancer.routing.request import PlacementRequest
from balancer.routing.router import Router
from runtime.primitives.clock import NS_PER_S
from runtime.primitives.load_snapshot import RuntimeState
from runtime.primitives.reasons import RefusalReason
from runtime.primitives.rng import SeededRng

NOW = 100 * NS_PER_S
ASK = PlacementRequest(session_id="call")


def runtime(name: str, **changes: object) -> RuntimeRow:
    row = RuntimeRow(
        runtime_id=name, incarnation=1, state=RuntimeState.READY, arrived_ns=NOW - 4 * NS_PER_S // 10, hard_limit=8,
        effective=8.0, utilisation=0.2, agents=frozenset({"desk"}), abilities=frozenset({"book", "tools"}), region="eu",
        version=(1, 2),
    )  # fmt: skip
    return replace(row, **changes)  # type: ignore[arg-type]  # the fields of one row


def fleet(*rows: RuntimeRow) -> FleetView:
    view = FleetView()
    for row in rows:
        view.put(row)
    return view


def decide(view: FleetView, request: PlacementRequest = ASK, policy: str = "session_aware", seed: int = 1) -> Decision:
    return Router(POLICIES[policy](), max_report_age_ns=3 * NS_PER_S).decide(request, view, NOW, SeededRng(seed))


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
        ({"context_window_remaining": 100}, {"context_window": 101}, RefusalReason.NO_HEADROOM, "0+0+0 of 8"),
        ({}, {"only_runtime": "r9"}, RefusalReason.UNSUITABLE, "already"),
        ({}, {"avoid": frozenset({"r1"})}, RefusalReason.UNREACHABLE, "could not be reached"),
        ({"is_overloaded": True}, {}, RefusalReason.OVERLOAD, "utilisation 0.20"),
        ({"active": 5, "reserved": 2, "in_flight": 1}, {}, RefusalReason.LIMIT, "5+2+1 of 8"),
        ({"active": 5, "effective": 5.9}, {}, RefusalReason.NO_HEADROOM, "effective 5.9"),
        ({"hard_limit": 0}, {}, RefusalReason.LIMIT, "of 0"),
        ({"utilisation": None, "effective": 0.0}, {}, RefusalReason.NO_HEADROOM, "unknown"),
    ],
)
def test_each_filter_refuses_with_its_reason(
    changes: dict[str, object], request_changes: dict[str, object], reason: RefusalReason, words: str
) -> None:
    view = fleet(runtime("r1", **changes))
    decision = decide(view, replace(ASK, **request_changes))  # type: ignore[arg-type]  # the fields of one request
    assert decision.candidates == ()
    assert [(each.runtime_id, each.reason) for each in decision.refusals] == [("r1", reason)]
    assert words in decision.refusals[0].detail
    assert "none of 1" in decision.reason
    # The same runtime serves once a good one stands beside it only if the good one is chosen.
    view.put(runtime("good", agents=frozenset({"desk", "other"}), abilities=frozenset({"book", "fly"}), version=(2,)))
    if "only_runtime" not in request_changes:
        assert [each.runtime_id for each in decide(view, decision.request).candidates] == ["good"]


def test_an_empty_fleet_says_so() -> None:
    decision = decide(FleetView())
    assert (decision.candidates, decision.refusals) == ((), ())
    assert decision.reason == "no runtime is enrolled"


def test_the_reason_is_one_readable_sentence() -> None:
    decision = decide(fleet(runtime("a", in_flight=1), runtime("b", active=3), runtime("c", active=4), runtime("d", active=8)))
    assert [each.runtime_id for each in decision.candidates] == ["a", "b", "c"]
    assert decision.reason == "least loaded of 3 with room: 0+0+1 of 8 (effective 8.0); report 0.4 s old"
    assert decision.removed == (("hard_limit", 1),)
    assert decision.explain(decision.candidates[1]).startswith("choice 2 (the ones before gave no place)")


def test_region_is_a_preference() -> None:
    view = fleet(runtime("far", region="us"), runtime("near", active=6))
    near = decide(view, replace(ASK, region="eu"))
    assert [each.runtime_id for each in near.candidates] == ["near"]
    assert not near.cross_region
    away = decide(view, replace(ASK, region="asia"))
    assert away.cross_region
    assert away.candidates[0].runtime_id == "far"
    assert "cross-region from asia" in away.reason


def test_order_is_by_share_of_capacity_not_by_count() -> None:
    view = fleet(runtime("small", hard_limit=4, active=2), runtime("large", hard_limit=40, effective=40.0, active=10))
    assert decide(view).candidates[0].runtime_id == "large"


def test_a_debited_decision_is_visible_to_the_next() -> None:  # bugs B19, B20
    view = fleet(*(runtime(name) for name in "abcd"))
    served: Counter[str] = Counter()
    for seed in range(32):
        chosen = decide(view, seed=seed).candidates[0]
        served[chosen.runtime_id] += 1
        row = view.get(chosen.runtime_id)
        assert row is not None
        view.put(replace(row, in_flight=row.in_flight + 1))
    assert set(served.values()) == {8}
    assert decide(view).candidates == ()


def test_equal_runtimes_are_drawn_equally() -> None:
    view = fleet(*(runtime(name) for name in "abcde"))
    rng = SeededRng(3)
    router = Router(POLICIES["session_aware"](), max_report_age_ns=3 * NS_PER_S)
    served = Counter(router.decide(ASK, view, NOW, rng).candidates[0].runtime_id for _ in range(5000))
    assert all(abs(times - 1000) < 150 for times in served.values())


rows = st.builds(
    lambda name, state, active, reserved, flight, limit, effective, hot, out, known: runtime(
        name,
        state=state,
        active=active,
        reserved=reserved,
        in_flight=flight,
        hard_limit=limit,
        effective=min(effective, limit) if known else 0.0,
        is_overloaded=hot,
        ineligible="gone" if out else "",
        utilisation=0.3 if known else None,
    ),
    st.sampled_from("abcdefgh"),
    st.sampled_from(RuntimeState),
    st.integers(0, 12),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 12),
    st.floats(0, 12),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


@settings(max_examples=200)
@given(st.lists(rows, max_size=12), st.integers(0, 50), st.sampled_from(sorted(POLICIES)))
def test_whoever_is_chosen_may_serve(given_rows: list[RuntimeRow], seed: int, policy: str) -> None:
    view = fleet(*given_rows)
    decision = decide(view, policy=policy, seed=seed)
    names = [each.runtime_id for each in decision.candidates]
    assert len(set(names)) == len(names) <= 3
    for name in names:
        row = view.get(name)
        assert row is not None
        assert row.state is RuntimeState.READY  # bug B34
        assert not row.ineligible  # bug B36
        assert not row.is_overloaded
        assert row.estimate < row.hard_limit
        if policy == "session_aware":
            assert row.estimate + 1 <= row.effective
            assert row.utilisation is not None  # unknown is not idle, bug B7
    if not names:
        assert {each.runtime_id for each in decision.refusals} == {row.runtime_id for row in view.rows()}


@given(st.lists(rows, min_size=1, max_size=10), st.integers(0, 20))
def test_renaming_runtimes_renames_the_answer(given_rows: list[RuntimeRow], seed: int) -> None:
    view = fleet(*given_rows)
    renamed = fleet(*(replace(row, runtime_id="x" + row.runtime_id) for row in view.rows()))
    names = [each.runtime_id for each in decide(view, seed=seed).candidates]
    assert [each.runtime_id for each in decide(renamed, seed=seed).candidates] == ["x" + name for name in names]


@given(st.lists(rows, min_size=2, max_size=8, unique_by=lambda row: row.runtime_id), st.integers(0, 7), st.integers(0, 20))
def test_more_load_never_helps_a_runtime(given_rows: list[RuntimeRow], which: int, seed: int) -> None:
    target = given_rows[which % len(given_rows)]
    before = decide(fleet(*given_rows), seed=seed)
    if not before.candidates or before.candidates[0].runtime_id == target.runtime_id:
        return
    if any(each.score == before.candidates[0].score for each in before.candidates[1:]):
        return  # a tie: the draw may differ
    heavier = [replace(row, active=row.active + 1) if row is target else row for row in given_rows]
    assert decide(fleet(*heavier), seed=seed).candidates[0].runtime_id == before.candidates[0].runtime_id
