"""The ledger: sessions are counted when they are real, once, and end once, whatever fires together."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from runtime.primitives.ids import Epoch, SessionId
from runtime.primitives.load_snapshot import LegTotals
from runtime.primitives.reasons import EndReason
from runtime.session.ledger import DuplicateSession, Ledger, Leg, LegChange, LegEvent, UnknownTicket

_LEASE_NS = 100


class _Heard:
    def __init__(self) -> None:
        self.events: list[LegEvent] = []

    def leg_changed(self, event: LegEvent) -> None:
        self.events.append(event)


def _ledger() -> tuple[Ledger, _Heard]:
    numbers = itertools.count(1)
    heard = _Heard()
    return Ledger(heard, lambda: f"ticket-{next(numbers)}", _LEASE_NS), heard


def _reserve(ledger: Ledger, name: str = "a", now_ns: int = 0, *, is_adoption: bool = False) -> Leg:
    return ledger.reserve(SessionId(name), Epoch(1), lease_ns=_LEASE_NS, now_ns=now_ns, is_adoption=is_adoption)


def _started(ledger: Ledger, name: str = "a") -> Leg:
    leg = ledger.attach(_reserve(ledger, name).ticket, 0)
    assert ledger.start(leg, 0)
    return leg


def test_a_session_counts_only_after_its_first_valid_message() -> None:  # requirement S1
    ledger, heard = _ledger()
    leg = _reserve(ledger)
    assert (ledger.active, ledger.reserved, ledger.totals.started) == (0, 1, 0)
    ledger.attach(leg.ticket, 0)
    assert (ledger.active, ledger.reserved, ledger.totals.started) == (0, 1, 0)
    ledger.start(leg, 0)
    assert (ledger.active, ledger.reserved, ledger.totals.started) == (1, 0, 1)
    assert [event.change for event in heard.events] == [LegChange.STARTED]


@pytest.mark.parametrize(
    "order", list(itertools.permutations([EndReason.IDLE_TIMEOUT, EndReason.CONNECTION_LOST, EndReason.DRAINED]))
)
def test_ends_once_with_the_first_reason(order: tuple[EndReason, ...]) -> None:  # requirement S2, bug B47
    ledger, heard = _ledger()
    leg = _started(ledger)
    assert [ledger.end(leg, reason) for reason in order] == [True, False, False]
    assert ledger.totals.ended == {order[0]: 1}
    assert leg.end_reason is order[0]
    assert ledger.active == 0
    assert [event.reason for event in heard.events] == [None, order[0]]


def test_an_attached_caller_that_never_spoke_is_no_session() -> None:  # requirement S1
    ledger, heard = _ledger()
    leg = ledger.attach(_reserve(ledger).ticket, 0)
    assert ledger.end(leg, EndReason.CONNECTION_LOST)
    assert leg.end_reason is EndReason.NEVER_SPOKE
    assert ledger.totals == LegTotals(ended={}, refused={})
    assert not heard.events


def test_a_ticket_is_used_once() -> None:
    ledger, _ = _ledger()
    leg = _reserve(ledger)
    ledger.attach(leg.ticket, 0)
    with pytest.raises(UnknownTicket):
        ledger.attach(leg.ticket, 0)


def test_a_ticket_expires_with_its_lease() -> None:
    ledger, _ = _ledger()
    leg = _reserve(ledger)
    with pytest.raises(UnknownTicket):
        ledger.attach(leg.ticket, _LEASE_NS)
    assert ledger.reserved == 0


def test_a_half_made_session_frees_its_place() -> None:  # requirement S6, bug R6
    ledger, _ = _ledger()
    reserved, attached = _reserve(ledger, "a"), _reserve(ledger, "b")
    ledger.attach(attached.ticket, 10)
    assert ledger.expire(_LEASE_NS) == [reserved]
    assert ledger.expire(10 + _LEASE_NS) == [attached]
    assert ledger.reserved == 0
    assert not ledger.start(attached, 10 + _LEASE_NS)


def test_the_same_id_twice_is_refused_and_the_owner_keeps_it() -> None:  # bug R16
    ledger, _ = _ledger()
    leg = _started(ledger)
    with pytest.raises(DuplicateSession):
        _reserve(ledger)
    assert ledger.find(leg.session_id) is leg


def test_a_moved_leg_is_counted_apart() -> None:
    ledger, _ = _ledger()
    leg = ledger.attach(_reserve(ledger, is_adoption=True).ticket, 0)
    ledger.start(leg, 0)
    assert ledger.move_out(leg)
    assert not ledger.end(leg, EndReason.CLOSED_BY_CALLER)
    totals = ledger.totals
    assert (totals.started, totals.moved_in, totals.moved_out, totals.ended) == (0, 1, 1, {})


def test_versions_have_no_gap() -> None:
    ledger, heard = _ledger()
    for name in "abc":
        ledger.end(_started(ledger, name), EndReason.CLOSED_BY_CALLER)
    assert [event.version for event in heard.events] == list(range(1, 7))
    assert ledger.version == 6


class _LedgerMachine(RuleBasedStateMachine):
    """Timeout, cancel and disconnect in every order, on legs in every state."""

    legs: Bundle[Leg] = Bundle("legs")

    def __init__(self) -> None:
        super().__init__()
        self.ledger, self.heard = _ledger()
        self.now_ns = 0
        self.names = itertools.count(1)
        self.ends: Counter[tuple[SessionId, int]] = Counter()
        self.before = LegTotals()

    @rule(target=legs, is_adoption=st.booleans())
    def reserve(self, is_adoption: bool) -> Leg:
        return _reserve(self.ledger, f"s{next(self.names)}", self.now_ns, is_adoption=is_adoption)

    @rule(leg=legs)
    def attach(self, leg: Leg) -> None:
        try:
            self.ledger.attach(leg.ticket, self.now_ns)
        except UnknownTicket:
            return

    @rule(leg=legs)
    def start(self, leg: Leg) -> None:
        self.ledger.start(leg, self.now_ns)

    @rule(leg=legs, reason=st.sampled_from(EndReason))
    def end(self, leg: Leg, reason: EndReason) -> None:
        self.ends[leg.session_id, id(leg)] += self.ledger.end(leg, reason)

    @rule(leg=legs)
    def move_out(self, leg: Leg) -> None:
        self.ends[leg.session_id, id(leg)] += self.ledger.move_out(leg)

    @rule(leg=legs)
    def release(self, leg: Leg) -> None:
        self.ledger.release(leg.ticket)

    @rule(step=st.integers(0, 2 * _LEASE_NS))
    def wait(self, step: int) -> None:
        self.now_ns += step
        self.ledger.expire(self.now_ns)

    @invariant()
    def books_balance(self) -> None:
        totals = self.ledger.totals
        assert totals.active == self.ledger.active == len(list(self.ledger.live())) >= 0
        assert self.ledger.reserved >= 0

    @invariant()
    def totals_only_grow(self) -> None:
        now, before = self.ledger.totals, self.before
        assert now.started >= before.started
        assert now.moved_in >= before.moved_in
        assert now.moved_out >= before.moved_out
        assert all(now.ended.get(reason, 0) >= count for reason, count in before.ended.items())
        self.before = now

    @invariant()
    def each_leg_ends_at_most_once(self) -> None:
        assert all(count <= 1 for count in self.ends.values())


TestLedgerMachine = _LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
