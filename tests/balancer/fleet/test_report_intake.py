"""Which reports are taken, counted and gathered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from balancer.fleet.membership import Member
from balancer.fleet.registration import Registration
from balancer.fleet.report_intake import ReportIntake, Taken
from balancer.fleet.seat import Seat
from runtime.primitives.clock import NS_PER_MS
from runtime.primitives.load_snapshot import LegTotals, LoadSnapshot, RuntimeState

FACTS = Registration("r1", 5, "127.0.0.1:1", "127.0.0.1:2", 20, state=RuntimeState.READY)


def report(sequence: int, **changes: Any) -> LoadSnapshot:
    made = LoadSnapshot("r1", 5, sequence, 0, 1, 0, 0, 0, 20, LegTotals(), RuntimeState.READY, 0.1)
    return replace(made, **changes)


def seat() -> Seat:
    return Seat(Member(FACTS, RuntimeState.READY, 0, 0), 0)


def test_the_first_is_due_and_routine_ones_wait_in_a_rush() -> None:
    intake, one = ReportIntake(), seat()
    assert intake.take(one, report(1), (), 0, may_wait=True) is Taken.DUE
    assert intake.hand_over() == [one]
    assert intake.take(one, report(2), (), NS_PER_MS, may_wait=True) is Taken.WAITS
    assert intake.take(one, report(3), (), 2 * NS_PER_MS, may_wait=True) is Taken.WAITS
    assert intake.hand_over() == [one]  # once, with its newest
    assert one.report is not None
    assert one.report.snapshot.sequence == 3
    assert intake.hand_over() == []


@pytest.mark.parametrize(
    ("told", "gap_ms", "may_wait"),
    [
        (report(2), 100, True),  # no rush
        (report(2), 1, False),
        (report(2, state=RuntimeState.DRAINING), 1, True),
    ],
)
def test_what_never_waits(told: LoadSnapshot, gap_ms: int, may_wait: bool) -> None:
    intake, one = ReportIntake(), seat()
    intake.take(one, report(1), (), 0, may_wait=True)
    intake.hand_over()
    assert intake.take(one, told, (), gap_ms * NS_PER_MS, may_wait=may_wait) is Taken.DUE


def test_strangers_duplicates_and_the_late_change_nothing_but_counts() -> None:
    intake, one = ReportIntake(), seat()
    intake.take(one, report(5), (), 0, may_wait=True)
    intake.hand_over()
    for told, at in ((report(5), one), (report(4), one), (report(6, incarnation=4), one), (report(6), None)):
        assert intake.take(at, told, (), NS_PER_MS, may_wait=True) is Taken.NOT
    assert (intake.taken, intake.duplicate, intake.reordered, intake.unknown_runtime) == (1, 1, 1, 2)
    assert intake.hand_over() == []
    assert one.report is not None
    assert one.report.snapshot.sequence == 5
