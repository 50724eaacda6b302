"""Whether a ticket opens a place here, now, for this connection. Checked in full before anything is used up."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.primitives.clock import Clock
from runtime.primitives.ids import RuntimeId
from runtime.session.key_ring import KeyRing
from runtime.session.ledger import Ledger, Leg, UnknownTicket
from runtime.wire.signed_tickets import TicketFault, TicketRefused, open_ticket

__all__ = ["Presented", "TicketCheck"]


@dataclass(frozen=True, slots=True)
class Presented:
    """What a connection brings and says of itself. Empty `session_id` or `tenant`: it leaves that to the ticket."""

    ticket: str
    session_id: str = ""
    tenant: str = ""


class TicketCheck:
    def __init__(self, ring: KeyRing, ledger: Ledger, runtime_id: RuntimeId, incarnation: int, clock: Clock) -> None:
        self._ring = ring
        self._ledger = ledger
        self._runtime_id = runtime_id
        self._incarnation = incarnation
        self._clock = clock

    def place_of(self, presented: Presented) -> str:
        """The name of the place that the ticket opens. Raises TicketRefused, or UnknownTicket where tickets are bare names.

        In this order: a ticket that somebody made up learns nothing of what is held here.
        """
        leg = self._sealed(presented.ticket) if self._ring.keys else self._bare(presented.ticket)
        if presented.session_id not in ("", leg.session_id):
            raise TicketRefused(TicketFault.WRONG_SESSION)
        if presented.tenant not in ("", leg.tenant):
            raise TicketRefused(TicketFault.WRONG_TENANT)
        return leg.ticket

    def _sealed(self, ticket: str) -> Leg:
        claims = open_ticket(ticket, self._ring.keys)
        if (claims.runtime_id, claims.incarnation) != (self._runtime_id, self._incarnation):
            raise TicketRefused(TicketFault.WRONG_RUNTIME)
        if claims.expires_ns <= self._clock.now_ns():
            raise TicketRefused(TicketFault.EXPIRED)
        leg = self._ledger.holding(claims.place)
        if leg is None or (leg.session_id, leg.epoch, leg.tenant) != (claims.session_id, claims.epoch, claims.tenant):
            raise TicketRefused(TicketFault.USED)
        return leg

    def _bare(self, name: str) -> Leg:
        leg = self._ledger.holding(name)
        if leg is None:
            raise UnknownTicket
        return leg
