"""Which key seals, and for whom none does."""

from __future__ import annotations

import pytest

from balancer.placement.ticket_sealer import NoCommonKey, TicketSealer
from protos.switchboard.v1 import placement_pb2
from runtime.wire.signed_tickets import TicketClaims, TicketKey, open_ticket

_NOW, _BEFORE = TicketKey("now", b"a" * 32), TicketKey("before", b"b" * 32)


def _ticket(sealer: TicketSealer, *key_ids: str) -> str:
    admitted = placement_pb2.Admitted(ticket="place", ticket_ttl_ms=1, key_ids=key_ids, expires_ns=7)
    return sealer.ticket(admitted, "call", 2, "runtime", 5, "acme")


@pytest.mark.parametrize(("theirs", "sealed_with"), [(("now", "before"), _NOW), (("before",), _BEFORE), (("other", "now"), _NOW)])
def test_the_first_key_that_the_runtime_knows_seals(theirs: tuple[str, ...], sealed_with: TicketKey) -> None:
    ticket = _ticket(TicketSealer([_NOW, _BEFORE], are_told=False), *theirs)
    assert open_ticket(ticket, {sealed_with.key_id: sealed_with}) == TicketClaims("place", "call", 2, "runtime", 5, 7, "acme")


def test_a_runtime_that_knows_none_of_our_keys_gets_nobody() -> None:
    with pytest.raises(NoCommonKey, match=r"ours: now; its: other") as error:
        _ticket(TicketSealer([_NOW], are_told=True), "other")
    assert "aaaa" not in str(error.value)


def test_an_old_runtime_gets_bare_names_unless_an_operator_gave_keys() -> None:
    assert _ticket(TicketSealer([_NOW], are_told=True)) == "place"
    assert _ticket(TicketSealer((), are_told=False)) == "place"
    with pytest.raises(NoCommonKey, match="its: none"):
        _ticket(TicketSealer([_NOW], are_told=False))


def test_only_keys_that_were_made_are_told() -> None:
    assert TicketSealer([_NOW], are_told=True).told == [_NOW]
    assert TicketSealer([_NOW], are_told=False).told == ()
