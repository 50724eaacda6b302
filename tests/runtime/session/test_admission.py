"""Admission: decided and entered in one step; every refusal names its reason."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from runtime.primitives.ids import Epoch, SessionId
from runtime.primitives.load_snapshot import RuntimeState
from runtime.primitives.reasons import EndReason, RefusalReason
from runtime.session.admission import Admission, AdmissionRequest, Admitted, Refused, Suitability
from runtime.session.guard import OverloadGuard, Saturation
from runtime.session.inflow import InflowBucket
from runtime.session.ledger import DuplicateSession, Ledger, LegEvent, UnknownTicket
from runtime.session.settlement import PlacementRef, Settlements

_CALM = Saturation(0.1, 1.0)
_S = 1_000_000_000


class _Deaf:
    def leg_changed(self, event: LegEvent) -> None:
        pass


class _Door:
    """An admission with its ledger, and short ways to knock."""

    def __init__(self, *, limit: int = 4, depth: int = 100, emergency: int = 6) -> None:
        numbers = itertools.count(1)
        self.ledger = Ledger(_Deaf(), lambda: f"t{next(numbers)}", 10 * _S)
        self.settlements = Settlements()
        self.admission = Admission(
            self.ledger,
            self.settlements,
            InflowBucket(depth, 1.0, 4.0, 0),
            OverloadGuard(0.95, 100.0),
            Suitability(frozenset({"front-desk"}), frozenset({"spanish"})),
            hard_limit=limit,
            emergency_limit=emergency,
        )

    def knock(
        self,
        request: AdmissionRequest,
        state: RuntimeState = RuntimeState.READY,
        saturation: Saturation = _CALM,
        now_ns: int = 0,
    ) -> Admitted | Refused:
        return self.admission.reserve(request, state, saturation, now_ns)


def _wish(name: str = "a", **fields: object) -> AdmissionRequest:
    return replace(AdmissionRequest(SessionId(name), Epoch(1), 2 * _S), **fields)  # type: ignore[arg-type]  # test shorthand


def _reason(answer: Admitted | Refused) -> RefusalReason | None:
    return answer.reason if isinstance(answer, Refused) else None


def test_exactly_k_of_n_are_admitted() -> None:  # bug R17, B16: a decision is visible to the next one
    door = _Door(limit=3)
    answers = [door.knock(_wish(f"s{number}")) for number in range(10)]
    assert [_reason(answer) for answer in answers] == [None] * 3 + [RefusalReason.LIMIT] * 7
    assert door.ledger.totals.refused == {"limit": 7}


def test_a_shallow_bucket_refuses_by_inflow() -> None:
    door = _Door(limit=100, depth=4)
    reasons = [_reason(door.knock(_wish(f"s{number}"))) for number in range(6)]
    assert reasons == [None] * 4 + [RefusalReason.INFLOW] * 2


def test_the_same_wish_again_gets_the_same_ticket() -> None:
    door = _Door()
    first, second = door.knock(_wish()), door.knock(_wish())
    assert isinstance(first, Admitted)
    assert isinstance(second, Admitted)
    assert first.leg is second.leg
    assert door.ledger.reserved == 1


def test_a_balancers_newer_epoch_replaces_a_reservation_that_nobody_attached_to() -> None:  # its answer was lost
    door = _Door(limit=1)
    first = door.knock(_wish(placement=PlacementRef("b", 7, 1)))
    assert isinstance(first, Admitted)
    for epoch, placement in ((2, None), (1, PlacementRef("b", 7, 2))):  # nobody without a placement; and the same is the same
        if placement is None:
            with pytest.raises(DuplicateSession):
                door.knock(_wish(epoch=Epoch(epoch)))
        else:
            assert door.knock(_wish(placement=placement)) == first
    second = door.knock(_wish(epoch=Epoch(3), placement=PlacementRef("b", 7, 3)))
    assert isinstance(second, Admitted)
    assert (second.leg.epoch, door.ledger.reserved) == (3, 1)
    with pytest.raises(UnknownTicket):
        door.ledger.attach(first.leg.ticket, 0)
    with pytest.raises(DuplicateSession):
        door.knock(_wish(epoch=Epoch(2), placement=PlacementRef("b", 7, 4)))  # an older one never
    door.ledger.attach(second.leg.ticket, 0)
    with pytest.raises(DuplicateSession):
        door.knock(_wish(epoch=Epoch(4), placement=PlacementRef("b", 7, 5)))


def test_an_attached_session_is_a_duplicate() -> None:
    door = _Door()
    answer = door.knock(_wish())
    assert isinstance(answer, Admitted)
    door.ledger.attach(answer.leg.ticket, 0)
    with pytest.raises(DuplicateSession):
        door.knock(_wish())


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (RuntimeState.STARTING, RefusalReason.NOT_READY),
        (RuntimeState.DRAINING, RefusalReason.DRAINING),
        (RuntimeState.OFFLINE, RefusalReason.DRAINING),
    ],
)
def test_only_a_ready_runtime_admits(state: RuntimeState, reason: RefusalReason) -> None:
    assert _reason(_Door().knock(_wish(), state)) is reason


def test_unsuitable_wishes_name_what_is_missing() -> None:
    door = _Door()
    agent = door.knock(_wish(agent="sales"))
    ability = door.knock(_wish(abilities=frozenset({"spanish", "polish"})))
    assert isinstance(agent, Refused)
    assert "'sales'" in agent.message
    assert "front-desk" in agent.message
    assert isinstance(ability, Refused)
    assert ability.message.endswith("polish")


def test_saturation_refuses_and_adoption_passes() -> None:
    door = _Door()
    hot = Saturation(2.0, 1.0)
    assert _reason(door.knock(_wish("a"), saturation=hot)) is RefusalReason.OVERLOAD
    assert _reason(door.knock(_wish("b", is_adoption=True), saturation=hot)) is None


def test_adoption_may_use_the_emergency_room() -> None:
    door = _Door(limit=1, emergency=2)
    assert _reason(door.knock(_wish("a"))) is None
    assert _reason(door.knock(_wish("b"))) is RefusalReason.LIMIT
    assert _reason(door.knock(_wish("c", is_adoption=True))) is None
    assert _reason(door.knock(_wish("d", is_adoption=True))) is RefusalReason.LIMIT


def test_an_older_epoch_is_stale() -> None:
    door = _Door()
    answer = door.knock(_wish(epoch=Epoch(3)))
    assert isinstance(answer, Admitted)
    door.admission.release(answer.leg.ticket)
    assert _reason(door.knock(_wish(epoch=Epoch(2)))) is RefusalReason.STALE_EPOCH
    assert _reason(door.knock(_wish(epoch=Epoch(3)))) is None


def test_an_expired_reservation_makes_room_at_once() -> None:
    door = _Door(limit=1)
    door.knock(_wish("a"))
    assert _reason(door.knock(_wish("b"), now_ns=2 * _S)) is None


def test_every_outcome_settles_its_placement() -> None:
    door = _Door(limit=1)
    for number, name in enumerate("abc", 1):
        door.knock(_wish(name, placement=PlacementRef("b", 7, number), oldest_open_placement=1))
    assert door.settlements.admitted_upto()[0].placement_number == 3


def test_release_by_placement_frees_only_its_own() -> None:
    door = _Door()
    door.knock(_wish(placement=PlacementRef("b", 7, 1)))
    assert not door.admission.release_placement(SessionId("a"), Epoch(1), PlacementRef("b", 7, 2))
    assert door.admission.release_placement(SessionId("a"), Epoch(1), PlacementRef("b", 7, 1))
    assert door.ledger.reserved == 0
    assert door.settlements.admitted_upto()[0].placement_number == 2


def test_a_started_session_is_not_released_by_placement() -> None:
    door = _Door()
    answer = door.knock(_wish(placement=PlacementRef("b", 7, 1)))
    assert isinstance(answer, Admitted)
    leg = door.ledger.attach(answer.leg.ticket, 0)
    door.ledger.start(leg, 0)
    assert not door.admission.release_placement(SessionId("a"), Epoch(1), PlacementRef("b", 7, 1))
    assert door.ledger.end(leg, EndReason.CLOSED_BY_CALLER)
