"""Every target of a fault run can be missed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from perf.faults.account import Account, Said
from perf.faults.journal import Journal
from perf.faults.plan import Connection, Door, Ending, Outcome, Wire
from perf.faults.residue import ProcessResidue
from perf.faults.verdict import Findings, since, targets_of
from runtime.primitives.load_snapshot import LegTotals

_REST = ProcessResidue(active=0, reserved=0, files=20, tasks=10)


def _journal() -> Journal:
    journal = Journal(lambda: 0.0)
    for number in range(4):
        connection = Connection(f"f-{number}", Wire.GRPC, Door.DIRECT, Ending.CLOSE, 0)
        journal.close(journal.open(connection), Outcome.STARTED)
    journal.must.add("f-3")
    return journal


def _good() -> Findings:
    books = {"started": 3, "recovered": 1, "moved_in": 0, "unheard": 0, "active": 0, "balanced": True}
    placements = {"attempted": 2, "placed": 2, "abandoned": 0, "being_placed": 0}
    return Findings(
        connections=4,
        kills=1,
        account=Account(),
        journal=_journal(),
        said=Said([("f-0", "closed_by_caller"), ("f-1", "closed_by_caller"), ("f-2", "closed_by_caller")], ["f-3"]),
        totals=LegTotals(4, lost=1, ended={"closed_by_caller": 3}),
        books=books,
        fleet={"books": placements, "runtimes": [{"in_flight": 0}]},
        slots_left=0,
        before={"a": _REST},
        after={"a": _REST},
        left={"a": _REST},
        files_of_balancer=(9, 9),
        callers_left=0,
        read={"reads": 1_000_000, "impossible": 0},
        reserved_most=1,
    )


def _missed(found: Findings) -> set[str]:
    return {target.name for target in targets_of(found) if not target.is_met}


def test_a_run_without_fault_meets_all() -> None:
    assert _missed(_good()) == set()


def _with_totals(totals: LegTotals) -> Callable[[Findings], Findings]:
    return lambda found: replace(found, totals=totals)


def _with_books(**changes: Any) -> Callable[[Findings], Findings]:
    return lambda found: replace(found, books={**found.books, **changes})


def _with_account(**changes: Any) -> Callable[[Findings], Findings]:
    return lambda found: replace(found, account=replace(found.account, **changes))


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        (lambda found: replace(found, connections=5), "connections_made"),
        (_with_account(not_as_planned=1), "not_as_planned"),
        (_with_account(ways_missing=["grpc.direct.idle"]), "ways_missing"),
        (_with_account(for_another_reason=1), "ended_for_another_reason"),
        (_with_account(ended_twice=1), "ended_twice"),
        (_with_account(without_end=1), "without_end"),
        (_with_account(killed_not_lost=1), "killed_and_not_lost"),
        (_with_account(lost_without_kill=1), "lost_without_a_kill"),
        (lambda found: replace(found, kills=2), "live_when_killed"),
        (_with_totals(LegTotals(4, ended={"closed_by_caller": 4})), "lost_counted_less_named"),
        (_with_totals(LegTotals(4, lost=1, ended={"idle_timeout": 3})), "reasons_counted_unlike_written"),
        (_with_totals(LegTotals(5, lost=1, ended={"closed_by_caller": 3})), "active_at_the_end"),
        (lambda found: replace(found, slots_left=1), "identity_slots_left"),
        (lambda found: replace(found, left={"a": replace(_REST, reserved=1)}), "entries_left"),
        (lambda found: replace(found, reserved_most=0), "reservations_seen"),
        (lambda found: replace(found, fleet={**found.fleet, "runtimes": [{"in_flight": 1}]}), "placements_left"),
        (lambda found: replace(found, callers_left=1), "driver_connections_left"),
        (lambda found: replace(found, after={"a": replace(_REST, files=21)}), "files_left"),
        (lambda found: replace(found, after={"a": replace(_REST, tasks=11)}), "tasks_left"),
        (lambda found: replace(found, files_of_balancer=(9, 10)), "balancer_files_left"),
        (_with_books(active=1), "balancer_books_active"),
        (_with_books(balanced=False), "balancer_books_balanced"),
        (_with_books(unheard=1), "books_ahead_of_shards"),
        (_with_books(started=1), "untold_by_the_killed"),
        (lambda found: replace(found, read={"reads": 10, "impossible": 0}), "snapshots_read"),
        (lambda found: replace(found, read={"reads": 1_000_000, "impossible": 1}), "impossible_snapshots"),
    ],
)
def test_each_target_is_missed_by_its_fault(change: Callable[[Findings], Findings], missed: str) -> None:
    assert missed in _missed(change(_good()))


def test_a_refused_placement_is_one_too_many_where_nobody_was_killed() -> None:
    found = _good()
    refused = {**found.fleet["books"], "placed": 1}
    journal = _journal()
    journal.must.clear()
    found = replace(found, kills=0, journal=journal, fleet={**found.fleet, "books": refused})
    assert "placements_refused" in _missed(found)


def test_what_came_on_top() -> None:
    before = LegTotals(5, lost=1, ended={"drained": 2, "idle_timeout": 1})
    now = LegTotals(9, lost=2, ended={"drained": 2, "idle_timeout": 3})
    assert since(now, before) == LegTotals(4, lost=1, ended={"idle_timeout": 2})
