"""The fault plan: the same seed, the same plan; every way of ending is in it, however short it is."""

from __future__ import annotations

from perf.faults.plan import REASONS, Door, Ending, Outcome, Wire, count_endings, make_plan, planned_outcome, ways
from runtime.primitives.reasons import EndReason
from runtime.primitives.rng import SeededRng


def test_the_same_seed_makes_the_same_plan() -> None:
    assert make_plan(500, 2, SeededRng(7)) == make_plan(500, 2, SeededRng(7))
    assert make_plan(500, 2, SeededRng(7)) != make_plan(500, 2, SeededRng(8))


def test_every_ending_by_every_door_to_all_workers() -> None:
    plan = make_plan(20_000, 3, SeededRng(1))
    assert len({each.session_id for each in plan}) == sum(count_endings(plan).values()) == 20_000
    assert {each.worker for each in plan} == {0, 1, 2}
    assert {(each.wire, each.ending) for each in plan} == {(w, e) for w in Wire for e in Ending} - {(Wire.GRPC, Ending.ABANDON)}
    assert {each.door for each in plan} == set(Door)


def test_a_short_plan_has_every_way_at_its_end_where_no_kill_comes_after() -> None:
    plan = make_plan(200, 2, SeededRng(3))
    assert {(each.wire, each.door, each.ending) for each in plan[-len(ways()) :]} == set(ways())


def test_every_reason_that_a_runtime_gives_is_meant_by_some_ending() -> None:
    not_given = {EndReason.CLOSED_BY_AGENT, EndReason.NEVER_SPOKE, EndReason.RUNTIME_LOST, EndReason.NO_CAPACITY}
    assert set(REASONS.values()) == set(EndReason) - not_given
    assert {planned_outcome(ending) for ending in Ending} == {Outcome.STARTED, Outcome.UNSPOKEN, Outcome.RESERVED}
