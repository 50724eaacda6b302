"""One `Reserve` and one `Release` at a runtime, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import grpc

from balancer.fleet.channels import RuntimeChannels
from balancer.fleet.fleet import Fleet
from balancer.fleet.seat import Seat
from balancer.fleet.translate import snapshot_from_wire
from balancer.fleet.unary import answer_of
from balancer.placement.ticket_sealer import NoCommonKey, TicketSealer
from balancer.routing.request import PlacementRequest, Priority
from protos.switchboard.v1 import load_pb2, placement_pb2, placement_pb2_grpc
from runtime.primitives.clock import Clock
from runtime.primitives.reasons import RefusalReason

__all__ = ["Admitted", "AlreadyHere", "Door", "NotAdmitted", "Reservations"]

_REASONS: Final[Mapping[int, RefusalReason]] = MappingProxyType(
    {
        placement_pb2.REFUSAL_REASON_LIMIT: RefusalReason.LIMIT,
        placement_pb2.REFUSAL_REASON_INFLOW: RefusalReason.INFLOW,
        placement_pb2.REFUSAL_REASON_OVERLOAD: RefusalReason.OVERLOAD,
        placement_pb2.REFUSAL_REASON_NOT_READY: RefusalReason.NOT_READY,
        placement_pb2.REFUSAL_REASON_DRAINING: RefusalReason.DRAINING,
        placement_pb2.REFUSAL_REASON_STALE_EPOCH: RefusalReason.STALE_EPOCH,
        placement_pb2.REFUSAL_REASON_UNSUITABLE: RefusalReason.UNSUITABLE,
    }
)
_PRIORITIES: Final[Mapping[Priority, placement_pb2.Priority.ValueType]] = MappingProxyType(
    {
        Priority.LOW: placement_pb2.PRIORITY_LOW,
        Priority.NORMAL: placement_pb2.PRIORITY_NORMAL,
        Priority.HIGH: placement_pb2.PRIORITY_HIGH,
    }
)


class Door(StrEnum):
    """How the caller will come; decides how long the ticket lives."""

    RELAY = "relay"
    ASSIGN = "assign"


@dataclass(frozen=True, slots=True)
class Admitted:
    """`place`: what the runtime calls it; `ticket`: what opens it."""

    place: str
    ticket: str
    ticket_ttl_ms: int


@dataclass(frozen=True, slots=True)
class NotAdmitted:
    reason: RefusalReason
    detail: str
    retry_after_ms: int = 0
    is_settled: bool = True
    """False: no answer came, so a place may be held there and must be released."""


@dataclass(frozen=True, slots=True)
class AlreadyHere:
    """The session is attached or live at this runtime."""


@dataclass(frozen=True, slots=True)
class Reservations:
    """The two calls. Fresh load in an answer goes into the fleet before the answer is given."""

    fleet: Fleet
    channels: RuntimeChannels
    clock: Clock
    timeout_s: float
    sealer: TicketSealer

    async def reserve(
        self, seat: Seat, number: int, request: PlacementRequest, door: Door, fair_share_per_s: float, timeout_s: float
    ) -> Admitted | NotAdmitted | AlreadyHere:
        """May be cancelled at any moment; the place must then be released by its number."""
        stub = placement_pb2_grpc.PlacementStub(self.channels.to(seat.member.facts.grpc_address))
        message = placement_pb2.ReserveRequest(
            session_id=request.session_id,
            epoch=request.epoch,
            kind=placement_pb2.PLACEMENT_KIND_ADOPTION if request.is_adoption else placement_pb2.PLACEMENT_KIND_NEW,
            priority=_PRIORITIES[request.priority],
            needs=placement_pb2.Needs(
                agent=request.agent, abilities=sorted(request.abilities), context_window=request.context_window
            ),
            fair_share_per_s=fair_share_per_s,
            balancer_id=self.fleet.life.balancer_id,
            balancer_incarnation=self.fleet.life.incarnation,
            placement_number=number,
            oldest_open_placement=seat.flight.oldest_open,
            tenant=request.tenant,
            door=placement_pb2.DOOR_RELAY if door is Door.RELAY else placement_pb2.DOOR_ASSIGN,
        )
        try:
            answer = await answer_of(stub.Reserve(message, timeout=timeout_s))
        except grpc.aio.AioRpcError as error:
            return self._failed(seat, number, error, timeout_s)
        if answer.WhichOneof("outcome") == "admitted":
            facts, admitted = seat.member.facts, answer.admitted
            try:
                ticket = self.sealer.ticket(
                    admitted, request.session_id, request.epoch, facts.runtime_id, facts.incarnation, request.tenant
                )
            except NoCommonKey as error:
                return NotAdmitted(RefusalReason.UNSUITABLE, str(error)[:200], is_settled=False)
            if self._take_load(seat, answer, may_wait=True):
                self.fleet.settle_with_report(seat, number)
            return Admitted(admitted.ticket, ticket, admitted.ticket_ttl_ms)
        self.fleet.settle_placement(seat, number, admitted=False)
        self._take_load(seat, answer)
        refused = answer.refused
        reason = _REASONS.get(refused.reason, RefusalReason.NOT_READY)
        return NotAdmitted(reason, refused.message[:200], refused.retry_after_ms)

    def _failed(self, seat: Seat, number: int, error: grpc.aio.AioRpcError, timeout_s: float) -> NotAdmitted | AlreadyHere:
        code = error.code()
        if code is grpc.StatusCode.ALREADY_EXISTS:
            self.fleet.settle_placement(seat, number, admitted=False)
            return AlreadyHere()
        if code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED):
            self.fleet.settle_placement(seat, number, admitted=False)
            return NotAdmitted(RefusalReason.UNSUITABLE, f"{code.name}: {(error.details() or '')[:200]}")
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            detail = f"no answer to the reservation within {timeout_s:g} s"
        else:
            detail = f"the reservation failed: {code.name}"
        return NotAdmitted(RefusalReason.UNREACHABLE, detail, is_settled=False)

    async def release(self, seat: Seat, number: int, session_id: str, epoch: int, ticket: str) -> bool:
        """Gives the place back; False: the runtime could not be told."""
        stub = placement_pb2_grpc.PlacementStub(self.channels.to(seat.member.facts.grpc_address))
        message = placement_pb2.ReleaseRequest(
            ticket=ticket,
            session_id=session_id,
            epoch=epoch,
            balancer_id=self.fleet.life.balancer_id,
            balancer_incarnation=self.fleet.life.incarnation,
            placement_number=number,
        )
        try:
            answer = await answer_of(stub.Release(message, timeout=max(1.0, self.timeout_s)))
        except grpc.aio.AioRpcError:
            return False
        if ticket:
            self.fleet.given_back(seat)
        self._take_load(seat, answer)
        self.fleet.settle_placement(seat, number, admitted=False)
        return True

    def _take_load(
        self, seat: Seat, answer: placement_pb2.ReserveResponse | placement_pb2.ReleaseResponse, *, may_wait: bool = False
    ) -> bool:
        """Whether the answer brought a report of this life: it, or a newer one already taken, contains the placement.

        `may_wait`: in a rush it is absorbed with others, a few milliseconds later; till then the placement counts as in flight.
        """
        if not answer.HasField("load"):
            return False
        load: load_pb2.LoadSnapshot = answer.load
        self.fleet.take_report(*snapshot_from_wire(load), self.clock.now_ns(), may_wait=may_wait)
        return load.runtime_id == seat.member.facts.runtime_id and load.incarnation == seat.member.facts.incarnation
