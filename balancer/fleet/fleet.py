"""The fleet as one balancer sees it: members, their trusted reports, the books, and the view that the router decides on.

Single-threaded and without I/O: the servicer, the report watches and the placer call it from one event loop, and every call
has its full effect before it returns, so the next decision sees it. The exception are routine reports in a rush, as a large
fleet sends them: a few that come within milliseconds are taken together, which costs a tenth for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from balancer.capacity.report_check import TrustedReport
from balancer.fleet.books import Books, LegChange, Recorded
from balancer.fleet.membership import Change, ChangeKind, EnrollOutcome, Member, Membership, MembershipRule
from balancer.fleet.registration import Leg, Registration
from balancer.fleet.report_intake import ReportIntake, Taken
from balancer.fleet.seat import Seat
from balancer.routing.fleet_view import FleetView
from balancer.routing.load_rule import LoadRule
from balancer.routing.runtime_facts import RuntimeFacts
from runtime.primitives.clock import NS_PER_MS
from runtime.primitives.load_snapshot import LoadSnapshot, RuntimeState

__all__ = ["BalancerLife", "Fleet", "FleetEvent"]

_WORST_FIRST = (RuntimeState.OFFLINE, RuntimeState.DRAINING, RuntimeState.STARTING, RuntimeState.READY)


@dataclass(frozen=True, slots=True)
class BalancerLife:
    """Who we are, to runtimes: an id and an incarnation that grows with every start."""

    balancer_id: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class FleetEvent:
    """Something about one runtime that is worth a log line and a number."""

    kind: str
    runtime_id: str
    incarnation: int
    legs: int = 0


class Fleet:
    def __init__(
        self,
        life: BalancerLife,
        load: LoadRule,
        membership: MembershipRule,
        now_ns: int,
        observe: Callable[[FleetEvent], None] | None = None,
        view: FleetView | None = None,
    ) -> None:
        """`view`: an empty one of the rule `load`, where the caller wants one of its own."""
        self.life = life
        self.membership = Membership(membership, now_ns)
        self.view = FleetView(load) if view is None else view
        self.books = Books(self.view.affinity)
        self.reports = ReportIntake()
        self._seats: dict[str, Seat] = {}
        self._observer = observe

    def _observe(self, event: FleetEvent) -> None:
        if self._observer is not None:
            self._observer(event)

    def seat(self, runtime_id: str) -> Seat | None:
        return self._seats.get(runtime_id)

    def seats(self) -> tuple[Seat, ...]:
        return tuple(self._seats.values())

    def is_leaving(self, runtime_id: str, incarnation: int) -> bool:
        """Whether this life of a runtime has said that it takes nothing new and leaves when it is empty."""
        member = self.membership.get(runtime_id)
        return member is not None and member.facts.incarnation == incarnation and member.state is RuntimeState.DRAINING

    # Enrolment

    def enroll(self, facts: Registration, now_ns: int) -> EnrollOutcome:
        """Takes a life into the fleet, with every leg it has. OLDER changes nothing."""
        self._absorb(now_ns)
        outcome, before = self.membership.enroll(facts, now_ns)
        if outcome is EnrollOutcome.OLDER:
            return outcome
        if outcome is EnrollOutcome.REPLACED and before is not None:
            self._lose(before, "replaced", now_ns)
        member = self.membership.get(facts.runtime_id)
        assert member is not None
        seat = self._seats.get(facts.runtime_id)
        if outcome is EnrollOutcome.RETURNED and seat is not None:
            seat.member = member  # placements in flight and the last report are still this life's
        else:
            self._seats[facts.runtime_id] = seat = Seat(member, self.view.put(_standing(member, None)))
        self.books.enroll(facts.runtime_id, facts.incarnation, facts.live, facts.ledger_version, now_ns)
        self._publish(seat)
        self._observe(FleetEvent(outcome.value, facts.runtime_id, facts.incarnation, len(facts.live)))
        return outcome

    def heard(self, member: Member, now_ns: int) -> None:
        if self.membership.heard(member, now_ns):
            self._republish(member)
            self._event(ChangeKind.HEARD_AGAIN.value, member)

    def state_changed(self, member: Member, state: RuntimeState, now_ns: int) -> None:
        self.heard(member, now_ns)
        if member.state is not state:
            member.state = state
            self._republish(member)
            self._event(f"state_{state.value}", member)

    def leg_event(self, member: Member, leg: Leg, change: LegChange, reason: str, version: int, now_ns: int) -> Recorded:
        self.heard(member, now_ns)
        facts = member.facts
        recorded = self.books.record(facts.runtime_id, facts.incarnation, leg, change, reason, version, now_ns)
        seat = self._seats.get(facts.runtime_id)
        left = recorded is Recorded.APPLIED and change in (LegChange.ENDED, LegChange.MOVED_OUT)
        # The report that contains this end may be here already: the two come by different streams.
        if left and seat is not None and (seat.report is None or version > seat.report.snapshot.ledger_version):
            if seat.report_waits:
                self._absorb(now_ns)
            self.view.end(seat.slot)
        return recorded

    def stream_ended(self, member: Member, now_ns: int) -> None:
        """The enrol stream is over. After the state `offline` that is a goodbye: the runtime leaves now. Else it is ineligible
        at once and has the grace to enroll again. No effect for a life that was replaced."""
        if self.membership.get(member.facts.runtime_id) is not member:
            return
        if member.state is RuntimeState.OFFLINE:
            self._forget(member, "left", now_ns)
        else:
            self.membership.stream_lost(member, now_ns)
            self._republish(member)
            self._event("stream_lost", member)

    def sweep(self, now_ns: int) -> list[Change]:
        """What time alone changed; call every sweep interval. Returns the changes, which have taken effect."""
        self._absorb(now_ns)
        changes = self.membership.sweep(now_ns)
        for change in changes:
            match change.kind:
                case ChangeKind.FORGOTTEN:
                    self._forget(change.member, change.kind.value, now_ns)
                case ChangeKind.LEGS_LOST:
                    self._lose(change.member, change.kind.value, now_ns)
                case ChangeKind.SUSPECTED | ChangeKind.HEARD_AGAIN:
                    self._event(change.kind.value, change.member)
            self._republish(change.member)
        return changes

    # Reports

    def take_report(self, report: LoadSnapshot, untranslated: tuple[str, ...], now_ns: int, *, may_wait: bool = False) -> bool:
        """A report that arrived just now. False: not taken (unknown life, duplicate, reordered); nothing changed but counts.

        `may_wait`: it is a routine one, and may be taken together with others if reports come in a rush.
        """
        taken = self.reports.take(self._seats.get(report.runtime_id), report, untranslated, now_ns, may_wait=may_wait)
        if taken is Taken.DUE:
            self._absorb(now_ns)
        return taken is not Taken.NOT

    def _absorb(self, now_ns: int) -> None:
        """The reports that wait have their effect, as one."""
        waiting = self.reports.hand_over()
        if not waiting:
            return
        told = []
        for seat in waiting:
            assert seat.report is not None
            told.append(seat.report)
            for upto in seat.report.snapshot.admitted_upto:
                if (upto.balancer_id, upto.balancer_incarnation) == (self.life.balancer_id, self.life.incarnation):
                    for _ in range(seat.flight.settle_upto(upto.placement_number)):
                        self.view.settle(seat.slot, contained=True)
            for number in seat.settles_with_report:
                if seat.flight.settle(number):
                    self.view.settle(seat.slot, contained=True)
            seat.settles_with_report.clear()
        self.view.report_snapshots(
            [seat.slot for seat in waiting],
            [each.snapshot for each in told],
            [each.utilisation for each in told],
            now_ns,
        )
        for seat, trusted in zip(waiting, told, strict=True):
            own, facts = trusted.snapshot, seat.member.facts
            arrived = None if "totals" in trusted.dropped else own.totals.started + own.totals.moved_in
            self.books.compare(facts.runtime_id, facts.incarnation, own.ledger_version, own.active, arrived)
            self._publish(seat)

    # Placements in flight

    def open_placement(self, runtime_id: str, now_ns: int) -> tuple[Seat, int] | None:
        """Debits one placement before any I/O; None: the runtime is gone."""
        seat = self._seats.get(runtime_id)
        if seat is None:
            return None
        number = seat.flight.open()
        self.view.place(seat.slot, now_ns)
        return seat, number

    def settle_placement(self, seat: Seat, number: int, *, admitted: bool) -> None:
        """The placement is contained in what the runtime told us, or (not admitted) will never take effect. Idempotent."""
        if seat.report_waits:
            self._absorb(self.reports.last_ns)
        if seat.flight.settle(number) and self._is_current(seat):
            self.view.settle(seat.slot, contained=admitted)

    def settle_with_report(self, seat: Seat, number: int) -> None:
        """The last report of this runtime that arrived contains the placement: settled when that has its effect."""
        if seat.report_waits:
            seat.settles_with_report.append(number)
        else:
            self.settle_placement(seat, number, admitted=True)

    def given_back(self, seat: Seat) -> None:
        """A place that the runtime had admitted was released there: its answer, with fresh load, comes after this."""
        if self._is_current(seat):
            self._absorb(self.reports.last_ns)
            self.view.release(seat.slot)

    def responded(self, seat: Seat, took_ns: int) -> None:
        """The runtime admitted a session so long after it was asked."""
        if self._is_current(seat):
            self.view.responded(seat.slot, took_ns / NS_PER_MS)

    def _is_current(self, seat: Seat) -> bool:
        return self._seats.get(seat.member.facts.runtime_id) is seat

    # The view

    def _republish(self, member: Member) -> None:
        seat = self._seats.get(member.facts.runtime_id)
        if seat is not None and seat.member is member:
            self._publish(seat)

    def _publish(self, seat: Seat) -> None:
        self.view.put(_standing(seat.member, seat.report))

    # Leaving

    def _lose(self, member: Member, kind: str, now_ns: int) -> None:
        lost = self.books.lose(member.facts.runtime_id, member.facts.incarnation, now_ns)
        member.legs_are_lost = True
        self._observe(FleetEvent(kind, member.facts.runtime_id, member.facts.incarnation, len(lost)))

    def _forget(self, member: Member, kind: str, now_ns: int) -> None:
        self._absorb(now_ns)
        self._lose(member, kind, now_ns)
        self.membership.remove(member)
        seat = self._seats.get(member.facts.runtime_id)
        if seat is not None and seat.member is member:
            del self._seats[member.facts.runtime_id]
            self.view.remove(member.facts.runtime_id)

    def _event(self, kind: str, member: Member) -> None:
        self._observe(FleetEvent(kind, member.facts.runtime_id, member.facts.incarnation))


def _standing(member: Member, report: TrustedReport | None) -> RuntimeFacts:
    facts = member.facts
    states = (member.state, member.state if report is None else report.snapshot.state)
    return RuntimeFacts(
        runtime_id=facts.runtime_id,
        incarnation=facts.incarnation,
        state=min(states, key=_WORST_FIRST.index),
        ineligible=member.ineligible,
        hard_limit=facts.hard_limit,
        agents=facts.agents,
        abilities=facts.abilities,
        region=facts.region,
        version=facts.comparable_version,
        cost_class=facts.cost_class,
    )
