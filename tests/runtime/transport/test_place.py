"""Who may come without a ticket."""

from __future__ import annotations

import io

import pytest

from balancer.telemetry.logs import make_logger
from runtime.app.settings import RuntimeSettings
from runtime.app.wiring import wire
from runtime.engines.synthetic import synthetic_engines
from runtime.primitives.ids import Epoch, SessionId
from runtime.primitives.load_snapshot import RuntimeState
from runtime.session.admission import AdmissionRequest, Admitted
from runtime.session.ledger import DuplicateSession, Leg, UnknownTicket
from runtime.transport.place import BadSessionId, DirectForbidden, PlaceRefused, Places, is_loopback
from runtime.transport.ticket_check import Presented
from runtime.wire.signed_tickets import TicketRefused
from tests.support.call_parts import ScriptedAgent


def _places(allow_direct: str = "loopback", state: RuntimeState = RuntimeState.READY) -> Places:
    settings = RuntimeSettings(engines="synthetic", allow_direct=allow_direct)
    parts = wire(settings, ScriptedAgent("Yes."), synthetic_engines(), 1, make_logger(io.StringIO(), "error"))
    parts.calls.state = state
    return parts.places


def _take(places: Places, *, ticket: str = "", session_id: str = "", host: str = "127.0.0.1", agent: str = "") -> Leg:
    return places.take(Presented(ticket, session_id), agent=agent, peer_host=host)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("10.0.0.1", False),
        ("", False),
        ("localhost", False),
    ],
)
def test_what_is_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("mode", "host", "is_allowed"),
    [
        ("loopback", "127.0.0.1", True),
        ("loopback", "10.0.0.1", False),
        ("loopback", "", False),
        ("everywhere", "10.0.0.1", True),
        ("nowhere", "127.0.0.1", False),
    ],
)
def test_who_may_come_directly(mode: str, host: str, is_allowed: bool) -> None:
    places = _places(mode)
    if is_allowed:
        assert _take(places, host=host).session_id.startswith("sess_")
    else:
        with pytest.raises(DirectForbidden):
            _take(places, host=host)


def test_a_ticket_opens_from_anywhere_and_once() -> None:
    places = _places("nowhere")
    answer = places._calls.reserve(AdmissionRequest(SessionId("mine"), Epoch(4), 10**9))
    assert isinstance(answer, Admitted)
    with pytest.raises(TicketRefused, match="another session"):
        _take(places, ticket=answer.leg.ticket, session_id="other", host="10.0.0.1")
    leg = _take(places, ticket=answer.leg.ticket, host="10.0.0.1")
    assert (leg.session_id, leg.epoch) == ("mine", 4)
    with pytest.raises(UnknownTicket):
        _take(places, ticket=answer.leg.ticket)


def test_bad_and_taken_ids_and_refusals() -> None:
    places = _places()
    with pytest.raises(BadSessionId):
        _take(places, session_id="a b")
    _take(places, session_id="mine")
    with pytest.raises(DuplicateSession):
        _take(places, session_id="mine")
    with pytest.raises(PlaceRefused, match="unsuitable"):
        _take(places, agent="nobody")
    with pytest.raises(PlaceRefused, match="draining"):
        _take(_places(state=RuntimeState.DRAINING))
