"""Which reports are taken, and which of them wait for a moment to be absorbed with others.

A large fleet reports a thousand times a second, and what a report costs the view is nearly the same for one as for sixteen. So
routine reports, and those that come with an admission, are gathered where they follow each other within milliseconds; the first
of a life, one that tells of another state, and what came with a refusal never wait.
"""

from __future__ import annotations

import enum
from collections import Counter
from typing import Final

from balancer.capacity.freshness import ReportOrder, order_of
from balancer.capacity.report_check import check_report
from balancer.fleet.seat import Seat
from runtime.primitives.clock import NS_PER_MS
from runtime.primitives.load_snapshot import LoadSnapshot

__all__ = ["ReportIntake", "Taken"]

_RUSH_NS: Final = 4 * NS_PER_MS
"""Reports that follow each other closer than this may wait for the next ones."""
_MOST_TOGETHER: Final = 16


class Taken(enum.Enum):
    NOT = "not"
    """Of an unknown life, a duplicate, or reordered: nothing changed but counts."""
    WAITS = "waits"
    DUE = "due"
    """All that wait are to be absorbed now."""


class ReportIntake:
    def __init__(self) -> None:
        self.taken = 0
        self.duplicate = 0
        self.reordered = 0
        self.unknown_runtime = 0
        self.dropped_fields: Counter[str] = Counter()
        self.last_ns = -_RUSH_NS
        self._waiting: list[Seat] = []

    def take(
        self, seat: Seat | None, report: LoadSnapshot, untranslated: tuple[str, ...], now_ns: int, *, may_wait: bool
    ) -> Taken:
        """`seat`: the one of the report's runtime, None if there is none."""
        if seat is None or seat.member.facts.incarnation != report.incarnation:
            self.unknown_runtime += 1
            return Taken.NOT
        before = seat.report
        last = None if before is None else (before.snapshot.incarnation, before.snapshot.sequence)
        match order_of(report.incarnation, report.sequence, last):
            case ReportOrder.DUPLICATE:
                self.duplicate += 1
                return Taken.NOT
            case ReportOrder.REORDERED:
                self.reordered += 1
                return Taken.NOT
            case ReportOrder.NEWER:
                pass
        seat.report = check_report(report, before, untranslated)
        seat.arrived_ns = now_ns
        self.taken += 1
        self.dropped_fields.update(seat.report.dropped)
        if not seat.report_waits:
            seat.report_waits = True
            self._waiting.append(seat)
        is_routine = may_wait and before is not None and before.snapshot.state is report.state
        is_rush = now_ns - self.last_ns < _RUSH_NS and len(self._waiting) < _MOST_TOGETHER
        self.last_ns = now_ns
        return Taken.WAITS if is_routine and is_rush else Taken.DUE

    def hand_over(self) -> list[Seat]:
        """The seats whose reports wait, in the order in which they came; none waits any more."""
        waiting, self._waiting = self._waiting, []
        for seat in waiting:
            seat.report_waits = False
        return waiting
