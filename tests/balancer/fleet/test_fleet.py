"""The fleet without I/O: reports, in-flight placements and the view agree at every step."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from balancer.fleet.books import LegChange
from balancer.fleet.fleet import BalancerLife, Fleet, FleetEvent
from balancer.fleet.membership import EnrollOutcome, Member, MembershipRule
from balancer.fleet.registration import Registration
from balancer.routing.fleet_view import RuntimeRow
from balancer.routing.load_rule import LoadRule
from runtime.primitives.clock import NS_PER_MS
from runtime.primitives.load_snapshot import AdmittedUpto, LegTotals, LoadSnapshot, RuntimeState

LIFE = BalancerLife("b1", 77)
FACTS = Registration("r1", 5, "127.0.0.1:1", "127.0.0.1:2", 20, state=RuntimeState.READY, agents=frozenset({"desk"}))


def report(sequence: int, **changes: object) -> LoadSnapshot:
    made = LoadSnapshot("r1", 5, sequence, 0, 1, 0, 0, 0, 20, LegTotals(), RuntimeState.READY, 0.1)
    return replace(made, **changes)  # type: ignore[arg-type]  # the fields of one report


class Harness:
    def __init__(self) -> None:
        self.events: list[FleetEvent] = []
        self.fleet = Fleet(LIFE, LoadRule(), MembershipRule(), 0, self.events.append)
        self.fleet.enroll(FACTS, 0)

    @property
    def member(self) -> Member:
        member = self.fleet.membership.get("r1")
        assert member is not None
        return member

    @property
    def row(self) -> RuntimeRow:
        row = self.fleet.view.get("r1")
        assert row is not None
        return row


def state_of(harness: Harness) -> str:
    return harness.row.facts.state.value


def test_before_its_first_report_a_runtime_has_no_room() -> None:
    harness = Harness()
    assert (harness.row.effective, harness.row.arrived_ns) == (0.0, None)
    assert harness.fleet.take_report(report(1), (), 10)
    assert (harness.row.effective, harness.row.arrived_ns) == (4.0, 10)


def test_duplicates_and_old_reports_change_nothing() -> None:  # requirement L3
    harness = Harness()
    harness.fleet.take_report(report(5, active=2, totals=LegTotals(started=2)), (), 10)
    before = harness.row
    assert not harness.fleet.take_report(report(5), (), 20)
    assert not harness.fleet.take_report(report(4), (), 20)
    assert not harness.fleet.take_report(report(9, incarnation=4), (), 20)
    assert not harness.fleet.take_report(report(9, runtime_id="who"), (), 20)
    assert harness.row == before
    counts = harness.fleet.reports
    assert (counts.taken, counts.duplicate, counts.reordered, counts.unknown_runtime) == (1, 1, 1, 2)


def test_an_unknown_utilisation_is_not_idle() -> None:  # bug B7
    harness = Harness()
    active = {"active": 4, "totals": LegTotals(started=4)}
    harness.fleet.take_report(report(1, utilisation=0.1, **active), (), 10)
    assert harness.row.effective > 4
    harness.fleet.take_report(report(2, utilisation=math.nan, **active), (), 20)
    assert harness.row.utilisation is None
    assert harness.row.effective == 4.0  # nothing new without a known peer
    assert harness.fleet.reports.dropped_fields == {"utilisation": 1}
    harness.fleet.enroll(replace(FACTS, runtime_id="r2"), 0)
    harness.fleet.take_report(report(1, runtime_id="r2", utilisation=0.4, **active), (), 20)
    harness.fleet.take_report(report(3, utilisation=math.inf, **active), (), 30)
    assert harness.row.effective == pytest.approx(4 * 1.5)  # its peer's 0.4


def test_placements_are_debited_until_a_report_contains_them() -> None:  # bug R18
    harness = Harness()
    fleet = harness.fleet
    fleet.take_report(report(1), (), 0)
    opened = [fleet.open_placement("r1", 0) for _ in range(3)]
    assert [each[1] for each in opened if each] == [1, 2, 3]
    assert harness.row.in_flight == 3
    mine = (AdmittedUpto("b1", 77, 2), AdmittedUpto("b1", 76, 99), AdmittedUpto("b2", 77, 99))
    fleet.take_report(report(2, reserved=2, admitted_upto=mine), (), 10)
    assert (harness.row.reserved, harness.row.in_flight, harness.row.estimate) == (2, 1, 3)
    assert opened[2] is not None
    fleet.settle_placement(*opened[2], admitted=True)
    fleet.settle_placement(*opened[2], admitted=True)
    assert harness.row.in_flight == 0
    assert fleet.open_placement("nobody", 0) is None


def test_a_settled_placement_of_a_life_that_is_gone_touches_no_other() -> None:
    harness = Harness()
    opened = harness.fleet.open_placement("r1", 0)
    assert opened is not None
    harness.fleet.enroll(replace(FACTS, incarnation=6), 0)
    harness.fleet.open_placement("r1", 0)
    harness.fleet.settle_placement(*opened, admitted=True)
    assert harness.row.in_flight == 1


def test_the_state_is_the_worst_that_any_source_says() -> None:  # bug B36
    harness = Harness()
    harness.fleet.take_report(report(1), (), 0)
    assert state_of(harness) == "ready"
    harness.fleet.state_changed(harness.member, RuntimeState.DRAINING, 1)
    harness.fleet.take_report(report(2), (), 2)
    assert state_of(harness) == "draining"
    harness.fleet.take_report(report(3, state=RuntimeState.OFFLINE), (), 3)
    assert state_of(harness) == "offline"


def test_overload_has_hysteresis() -> None:
    harness = Harness()
    seen = []
    for sequence, utilisation in enumerate((0.89, 0.91, 0.88, 0.81, 0.79, 0.88), start=1):
        harness.fleet.take_report(report(sequence, utilisation=utilisation), (), 0)
        seen.append(harness.row.overload)
    assert seen == [1, 2, 2, 2, 1, 1]  # normal priority: off above 0.9, on again below 0.8


def started(harness: Harness, name: str, version: int) -> None:
    harness.fleet.leg_event(harness.member, (name, 1), LegChange.STARTED, "", version, 0)


def test_a_kill_is_ineligible_at_once_and_lost_once_after_the_grace() -> None:
    harness = Harness()
    started(harness, "a", 1)
    started(harness, "b", 2)
    harness.fleet.stream_ended(harness.member, 0)
    assert harness.row.facts.ineligible
    assert harness.fleet.books.active == 2
    for now_ms in range(100, 1500, 100):
        harness.fleet.sweep(now_ms * NS_PER_MS)
    assert (harness.fleet.books.active, harness.fleet.books.totals.runtime_lost) == (0, 2)
    assert harness.fleet.enroll(replace(FACTS, incarnation=6), 2000 * NS_PER_MS) is EnrollOutcome.REPLACED
    assert harness.fleet.books.totals.runtime_lost == 2
    assert harness.row.facts.ineligible == ""


def test_coming_back_within_the_grace_loses_nothing() -> None:
    harness = Harness()
    started(harness, "a", 1)
    old = harness.member
    harness.fleet.stream_ended(old, 0)
    assert harness.fleet.enroll(replace(FACTS, live=(("a", 1),), ledger_version=1), 10) is EnrollOutcome.RETURNED
    harness.fleet.stream_ended(old, 20)  # late news of the old stream
    for now_ms in range(100, 2000, 100):
        harness.fleet.heard(harness.member, now_ms * NS_PER_MS)
        harness.fleet.sweep(now_ms * NS_PER_MS)
    assert harness.row.facts.ineligible == ""
    assert (harness.fleet.books.active, harness.fleet.books.totals.runtime_lost) == (1, 0)


def test_a_newer_life_loses_the_older_ones_legs_at_once() -> None:
    harness = Harness()
    started(harness, "a", 1)
    harness.fleet.enroll(replace(FACTS, incarnation=6), 0)
    assert (harness.fleet.books.active, harness.fleet.books.totals.runtime_lost) == (0, 1)
    assert harness.fleet.enroll(FACTS, 0) is EnrollOutcome.OLDER


def test_goodbye_removes_it_now() -> None:
    harness = Harness()
    harness.fleet.state_changed(harness.member, RuntimeState.OFFLINE, 0)
    harness.fleet.stream_ended(harness.member, 0)
    assert len(harness.fleet.view) == len(harness.fleet.membership) == 0
    assert [event.kind for event in harness.events] == ["added", "state_offline", "left"]


def test_where_sessions_live_and_lived_is_known_to_the_router() -> None:  # requirement R5
    harness = Harness()
    fleet, affinity = harness.fleet, harness.fleet.view.affinity
    fleet.leg_event(harness.member, ("a", 1), LegChange.STARTED, "", 1, 10)
    fleet.leg_event(harness.member, ("b", 1), LegChange.STARTED, "", 2, 10)
    assert (affinity.live, affinity.runtime_of("a", 10)) == (2, "r1")
    fleet.leg_event(harness.member, ("a", 1), LegChange.ENDED, "closed_by_caller", 3, 20)
    assert (affinity.live, affinity.runtime_of("a", 20)) == (1, "r1")
    fleet.enroll(replace(FACTS, incarnation=6, live=(("c", 1),)), 30)  # another life: what lived in the last one has ended
    assert (affinity.live, affinity.runtime_of("b", 30), affinity.runtime_of("c", 30)) == (1, "r1", "r1")
    fleet.enroll(replace(FACTS, incarnation=6), 40)  # it enrols again without the session
    assert affinity.live == 0


class Rush:
    """Routine reports of forty runtimes, a millisecond apart."""

    def __init__(self) -> None:
        self.fleet = Fleet(LIFE, LoadRule(), MembershipRule(), 0)
        self.now_ns = 0
        self.sequence = 0
        for number in range(40):
            self.fleet.enroll(replace(FACTS, runtime_id=f"r{number}"), 0)
        for number in range(40):
            self.tell(number)

    def tell(self, number: int, gap_ms: float = 1.0, **changes: Any) -> None:
        self.now_ns += int(gap_ms * NS_PER_MS)
        self.sequence += 1
        told = report(self.sequence, runtime_id=f"r{number}", **changes)
        assert self.fleet.take_report(told, (), self.now_ns, may_wait=True)

    def active(self, number: int) -> int:
        row = self.fleet.view.get(f"r{number}")
        assert row is not None
        return row.active


ONE: Any = {"active": 1, "totals": LegTotals(started=1)}


def test_reports_in_a_rush_are_taken_together_and_none_waits_long() -> None:
    rush = Rush()
    rush.tell(0, gap_ms=100.0, **ONE)
    assert rush.active(0) == 1  # no rush: at once
    for number in range(1, 20):
        rush.tell(number, **ONE)
    taken = [rush.active(number) for number in range(20)]
    assert taken == [1] * 17 + [0] * 3  # sixteen together
    rush.fleet.sweep(rush.now_ns + 1)
    assert [rush.active(number) for number in range(20)] == [1] * 20


def test_a_first_report_a_new_state_and_a_refusal_never_wait() -> None:
    rush = Rush()
    rush.fleet.enroll(replace(FACTS, runtime_id="r40"), rush.now_ns)
    rush.tell(1, **ONE)
    rush.tell(40, **ONE)
    assert (rush.active(1), rush.active(40)) == (1, 1)
    rush.tell(2, **ONE)
    rush.tell(3, state=RuntimeState.DRAINING, **ONE)
    assert (rush.active(2), rush.active(3)) == (1, 1)
    rush.tell(4, **ONE)
    rush.sequence += 1
    rush.fleet.take_report(report(rush.sequence, runtime_id="r5", **ONE), (), rush.now_ns)  # came with a refusal
    assert (rush.active(4), rush.active(5)) == (1, 1)


def test_a_placement_that_a_waiting_report_contains_counts_once_at_any_moment() -> None:
    rush = Rush()
    rush.tell(6, gap_ms=100.0, **ONE)
    first, second = rush.fleet.open_placement("r7", rush.now_ns), rush.fleet.open_placement("r7", rush.now_ns)
    assert first is not None
    assert second is not None
    rush.tell(7, reserved=1)  # came with the answer to the second, which is in it; the first is still asked
    rush.fleet.settle_with_report(*second)
    row = rush.fleet.view.get("r7")
    assert row is not None
    assert (row.in_flight, row.reserved) == (2, 0)
    rush.fleet.sweep(rush.now_ns)
    row = rush.fleet.view.get("r7")
    assert row is not None
    assert (row.in_flight, row.reserved) == (1, 1)
    rush.tell(7, gap_ms=100.0, reserved=2)
    rush.fleet.settle_with_report(*first)  # absorbed already: at once
    row = rush.fleet.view.get("r7")
    assert row is not None
    assert (row.in_flight, row.reserved) == (0, 2)


def test_what_happens_after_a_waiting_report_has_its_effect_after_it() -> None:
    rush = Rush()
    rush.tell(6, gap_ms=100.0, **ONE)
    opened = rush.fleet.open_placement("r7", rush.now_ns)
    assert opened is not None
    rush.tell(7, **ONE)
    rush.fleet.settle_placement(*opened, admitted=True)  # the report is older and holds nothing of it
    row = rush.fleet.view.get("r7")
    assert row is not None
    assert (row.in_flight, rush.active(7)) == (0, 1)
    two: Any = {"active": 2, "totals": LegTotals(started=2)}
    rush.tell(9, gap_ms=100.0, **two)
    rush.tell(10, **ONE)
    rush.tell(9, **two)  # waits
    left = rush.fleet.membership.get("r9")
    assert left is not None
    leg = ("s", 1)
    rush.fleet.leg_event(left, leg, LegChange.STARTED, "", 1, rush.now_ns)
    rush.fleet.leg_event(left, leg, LegChange.ENDED, "done", 2, rush.now_ns)
    rush.fleet.sweep(rush.now_ns)
    row = rush.fleet.view.get("r9")
    assert row is not None
    assert row.estimate == 1.0  # the end is newer than the report that waited
    rush.tell(8, **ONE)
    member = rush.fleet.membership.get("r8")
    assert member is not None
    rush.fleet.stream_ended(member, rush.now_ns)
    rush.fleet.state_changed(member, RuntimeState.OFFLINE, rush.now_ns)
    rush.fleet.stream_ended(member, rush.now_ns)
    assert rush.fleet.view.get("r8") is None
    rush.fleet.sweep(rush.now_ns)  # and its report comes to nobody's slot


def test_a_place_that_was_given_back_is_no_placement_of_ours() -> None:
    harness = Harness()
    harness.fleet.take_report(report(1), (), 0)
    opened = harness.fleet.open_placement("r1", 1)
    assert opened is not None
    seat, number = opened
    harness.fleet.take_report(report(2, reserved=1), (), 2)
    harness.fleet.settle_placement(seat, number, admitted=True)
    columns = harness.fleet.view.columns
    assert (harness.row.estimate, columns.own_placed.item(seat.slot)) == (1.0, 1.0)
    harness.fleet.given_back(seat)
    assert (harness.row.estimate, columns.own_placed.item(seat.slot)) == (0.0, 0.0)
    harness.fleet.take_report(report(3), (), 3)
    assert (harness.row.estimate, harness.row.in_flight) == (0.0, 0)
