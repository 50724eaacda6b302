"""The fault plan: the same seed, the same plan; every way of ending is in it."""

from __future__ import annotations

from perf.faults.plan import Ending, Wire, count_endings, make_plan
from runtime.primitives.rng import SeededRng


def test_the_same_seed_makes_the_same_plan() -> None:
    assert make_plan(500, 2, SeededRng(7)) == make_plan(500, 2, SeededRng(7))
    assert make_plan(500, 2, SeededRng(7)) != make_plan(500, 2, SeededRng(8))


def test_every_ending_on_both_wires_and_all_workers() -> None:
    plan = make_plan(20_000, 3, SeededRng(1))
    assert sum(count_endings(plan).values()) == 20_000
    assert {each.worker for each in plan} == {0, 1, 2}
    pairs = {(each.wire, each.ending) for each in plan}
    assert pairs == {(wire, ending) for wire in Wire for ending in Ending}
