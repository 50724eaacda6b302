"""The balancer's keys, and the tickets that it seals with them for places that runtimes hold."""

from __future__ import annotations

from collections.abc import Sequence

from protos.switchboard.v1 import placement_pb2
from runtime.wire.signed_tickets import TicketClaims, TicketKey, seal_ticket

__all__ = ["NoCommonKey", "TicketSealer"]


class NoCommonKey(Exception):
    """The runtime knows none of our keys: nobody whom we send would be let in."""

    def __init__(self, ours: Sequence[str], theirs: Sequence[str]) -> None:
        known = ", ".join(theirs[:8]) or "none"
        super().__init__(f"the runtime knows no ticket key of this balancer (ours: {', '.join(ours)}; its: {known})")


class TicketSealer:
    """Args:
    keys: the first that a runtime knows seals, so that a new one may be put in front before all runtimes have it.
    are_told: the keys were made at the start and runtimes are told them when they enroll. Then a runtime without keys is an
        old one, whose tickets are bare names; keys that an operator gave are never left out.
    """

    def __init__(self, keys: Sequence[TicketKey], *, are_told: bool) -> None:
        self._keys = keys
        self._are_told = are_told

    @property
    def told(self) -> Sequence[TicketKey]:
        """What a runtime is told when it enrolls."""
        return self._keys if self._are_told else ()

    def ticket(
        self, admitted: placement_pb2.Admitted, session_id: str, epoch: int, runtime_id: str, incarnation: int, tenant: str
    ) -> str:
        """What the caller presents. Raises NoCommonKey."""
        theirs = admitted.key_ids
        if not theirs and (self._are_told or not self._keys):
            return admitted.ticket
        key = next((each for each in self._keys if each.key_id in theirs), None)
        if key is None:
            raise NoCommonKey([each.key_id for each in self._keys], theirs)
        claims = TicketClaims(admitted.ticket, session_id, epoch, runtime_id, incarnation, admitted.expires_ns, tenant)
        return seal_ticket(claims, key)
