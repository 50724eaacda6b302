"""What a fault run has to show, as targets: every count with the value that it must have. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perf.faults.account import Account, Said
from perf.faults.journal import Journal
from perf.faults.plan import Outcome
from perf.faults.residue import ProcessResidue
from perf.targets import Target
from runtime.primitives.load_snapshot import LegTotals

__all__ = ["Findings", "legs_in_books", "since", "targets_of"]


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that was seen. Totals and books are those of the run alone, without its warm-up.

    Attributes:
        before, after: what each worker holds before the run and after it, when all callers have gone.
        left: the same at the very end, of the workers that a drain has brought.
        files_of_balancer: before and after.
        fleet: the balancer's document at the end.
        reserved_most: places that were seen held for callers on their way, at most.
        cut: sessions at most that a kill cut or may have cut.
    """

    connections: int
    kills: int
    account: Account
    journal: Journal
    said: Said
    totals: LegTotals
    books: Mapping[str, Any]
    fleet: Mapping[str, Any]
    slots_left: int
    before: Mapping[str, ProcessResidue]
    after: Mapping[str, ProcessResidue]
    left: Mapping[str, ProcessResidue]
    files_of_balancer: tuple[int, int]
    callers_left: int
    read: Mapping[str, Any]
    reserved_most: int

    @property
    def cut(self) -> int:
        return len(self.journal.must | self.journal.may)


def since(now: LegTotals, before: LegTotals) -> LegTotals:
    """What came on top."""
    ended = {reason: count - before.ended.get(reason, 0) for reason, count in now.ended.items()}
    return LegTotals(
        now.started - before.started,
        now.moved_in - before.moved_in,
        now.moved_out - before.moved_out,
        now.lost - before.lost,
        {reason: count for reason, count in ended.items() if count},
    )


def legs_in_books(books: Mapping[str, Any]) -> int:
    """All legs that a balancer knows to have been."""
    return int(books["started"] + books["recovered"] + books["moved_in"] + books["unheard"])


def targets_of(found: Findings) -> list[Target]:
    account, totals = found.account, found.totals
    outcomes = Counter(found.journal.outcomes.values())
    ended = sum(totals.ended.values())
    written = Counter(reason for _, reason in found.said.ended)
    # A worker that is killed between counting an end and writing it down has counted one more.
    unlike = sum(abs(totals.ended.get(reason, 0) - written[reason]) for reason in totals.ended.keys() | written.keys())
    arrived = totals.started + totals.moved_in
    untold = arrived - legs_in_books(found.books)
    placements = {name: found.fleet["books"][name] for name in ("attempted", "placed", "abandoned", "being_placed")}
    unplaced = placements["attempted"] - placements["placed"] - placements["abandoned"]
    rows = [
        ("connections_made", sum(outcomes.values()), "connections", "==", found.connections),
        ("not_as_planned", account.not_as_planned, "connections", "==", 0),
        ("overdue", outcomes[Outcome.OVERDUE], "callers", "==", 0),
        ("ways_missing", len(account.ways_missing), "ways", "==", 0),
        ("ended_for_another_reason", account.for_another_reason, "sessions", "==", 0),
        ("ended_twice", account.ended_twice, "sessions", "==", 0),
        ("without_end", account.without_end, "sessions", "==", 0),
        ("killed_and_not_lost", account.killed_not_lost, "sessions", "==", 0),
        ("lost_without_a_kill", account.lost_without_kill, "sessions", "==", 0),
        ("live_when_killed", len(found.journal.must), "sessions", ">=", found.kills),
        ("lost_counted_less_named", totals.lost - len(found.said.lost), "sessions", "==", 0),
        ("reasons_counted_unlike_written", unlike, "ends", "<=", found.kills),
        ("arrived_less_ended_left_and_lost", arrived - totals.moved_out - ended - totals.lost, "legs", "==", 0),
        ("active_at_the_end", totals.active, "sessions", "==", 0),
        ("identity_slots_left", found.slots_left, "slots", "==", 0),
        ("entries_left", sum(each.active + each.reserved for each in (*found.after.values(), *found.left.values())), "", "==", 0),
        ("reservations_seen", found.reserved_most, "places", ">=", 1),
        ("placements_refused", unplaced - placements["being_placed"], "placements", "<=", found.cut),
        ("placements_left", placements["being_placed"] + _in_flight(found.fleet), "placements", "==", 0),
        ("driver_connections_left", found.callers_left, "connections", "==", 0),
        ("files_left", _most(found, "files"), "descriptors", "<=", 0),
        ("tasks_left", _most(found, "tasks"), "tasks", "<=", 0),
        ("balancer_files_left", found.files_of_balancer[1] - found.files_of_balancer[0], "descriptors", "<=", 0),
        ("balancer_books_active", found.books["active"], "sessions", "==", 0),
        ("balancer_books_balanced", found.books["balanced"], "yes", "==", 1),
        ("books_ahead_of_shards", max(0, -untold), "sessions", "==", 0),
        # What a killed worker had not told in its last second is the only thing that may be missing in the books.
        ("untold_by_the_killed", max(0, untold), "sessions", "<=", len(found.journal.touched)),
        ("snapshots_read", found.read["reads"], "reads", ">=", 1_000_000),
        ("impossible_snapshots", found.read["impossible"], "snapshots", "==", 0),
    ]
    return [Target(name, float(value), unit, relation, float(bound)) for name, value, unit, relation, bound in rows]


def _most(found: Findings, what: str) -> int:
    return max(int(getattr(found.after[name], what)) - int(getattr(found.before[name], what)) for name in found.after)


def _in_flight(fleet: Mapping[str, Any]) -> int:
    return sum(int(runtime["in_flight"]) for runtime in fleet["runtimes"])
