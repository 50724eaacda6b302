"""How a caller comes to its place: with a ticket from a balancer, or, where that is allowed, by asking for itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address

from runtime.conversation.calls import Calls
from runtime.primitives.errors import Fault, VoiceError
from runtime.primitives.ids import Epoch, SessionId, is_session_id, is_tenant
from runtime.primitives.reasons import RefusalReason
from runtime.session.admission import AdmissionRequest, Refused
from runtime.session.ledger import Leg
from runtime.transport.ticket_check import Presented, TicketCheck

__all__ = [
    "BadSessionId",
    "BadTenant",
    "DirectCallers",
    "DirectForbidden",
    "PlaceRefused",
    "Places",
    "SessionsDiffer",
    "is_loopback",
]


class PlaceRefused(VoiceError):
    """No place here now."""

    fault = Fault.CAPACITY
    retryable = True

    def __init__(self, refusal: Refused) -> None:
        self.code = refusal.reason.value
        self.reason: RefusalReason = refusal.reason
        self.retry_after_ms = refusal.retry_after_ms
        super().__init__(f"{refusal.reason}: {refusal.message}")


class DirectForbidden(VoiceError):
    """This runtime takes callers from its balancer only."""

    code = "ticket_required"
    fault = Fault.PEER

    def __init__(self) -> None:
        super().__init__("a ticket is required; connect through the balancer, or ask it for an assignment")


class BadSessionId(VoiceError):
    code = "invalid_session_id"
    fault = Fault.PEER

    def __init__(self) -> None:
        super().__init__("session id; allowed: 1 to 128 characters of A-Z a-z 0-9 _ . : -")


class BadTenant(VoiceError):
    code = "invalid_tenant"
    fault = Fault.PEER

    def __init__(self) -> None:
        super().__init__("tenant; allowed: at most 64 characters of A-Z a-z 0-9 _ . : -")


class SessionsDiffer(VoiceError):
    """The connection names its session twice, and not the same."""

    code = "session_differs"
    fault = Fault.PEER

    def __init__(self, where: str) -> None:
        super().__init__(f"the session id differs between {where}")


@dataclass(frozen=True, slots=True)
class DirectCallers:
    """`mode`: loopback (callers on this machine), everywhere, or nowhere. `lease_ns`: how long the place is held."""

    mode: str
    lease_ns: int


def is_loopback(host: str) -> bool:
    """Whether an address, as a socket names it, is this machine's own."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Places:
    """Turns what a caller brings into an attached leg."""

    def __init__(self, calls: Calls, tickets: TicketCheck, direct: DirectCallers, new_session_id: Callable[[], str]) -> None:
        self._calls = calls
        self._tickets = tickets
        self._direct = direct
        self._new_session_id = new_session_id

    def take(self, presented: Presented, *, agent: str, peer_host: str) -> Leg:
        """The leg of a caller whose handshake is complete, or will be within the attach lease.

        Raises TicketRefused, UnknownTicket, DirectForbidden, BadSessionId, DuplicateSession or PlaceRefused.
        """
        if presented.ticket:
            return self._calls.attach(self._tickets.place_of(presented))
        if self._direct.mode == "nowhere" or (self._direct.mode == "loopback" and not is_loopback(peer_host)):
            raise DirectForbidden
        session_id = presented.session_id or self._new_session_id()
        if not is_session_id(session_id):
            raise BadSessionId
        if not is_tenant(presented.tenant):
            raise BadTenant
        wish = AdmissionRequest(SessionId(session_id), Epoch(1), self._direct.lease_ns, agent=agent, tenant=presented.tenant)
        answer = self._calls.reserve(wish)
        if isinstance(answer, Refused):
            raise PlaceRefused(answer)
        return self._calls.attach(answer.leg.ticket)
