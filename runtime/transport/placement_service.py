"""`Placement/Reserve` and `Release`: a balancer takes a place here, or gives it back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import grpc
from grpc import aio

from protos.switchboard.v1 import placement_pb2 as pb
from protos.switchboard.v1 import placement_pb2_grpc
from runtime.codec.snapshot_message import snapshot_message
from runtime.conversation.calls import Calls
from runtime.primitives.clock import NS_PER_MS, NS_PER_S
from runtime.primitives.ids import Epoch, SessionId, is_session_id, is_tenant
from runtime.primitives.load_snapshot import LoadSnapshot
from runtime.primitives.reasons import RefusalReason
from runtime.session.admission import AdmissionRequest, Admitted, Refused
from runtime.session.key_ring import KeyRing
from runtime.session.ledger import DuplicateSession
from runtime.session.settlement import PlacementRef

__all__ = ["PlacementService"]

_RELAY_LEASE_NS: Final = 2 * NS_PER_S
_ASSIGN_LEASE_NS: Final = 10 * NS_PER_S
_REASONS: Final[Mapping[RefusalReason, pb.RefusalReason.ValueType]] = {
    RefusalReason.LIMIT: pb.REFUSAL_REASON_LIMIT,
    RefusalReason.INFLOW: pb.REFUSAL_REASON_INFLOW,
    RefusalReason.OVERLOAD: pb.REFUSAL_REASON_OVERLOAD,
    RefusalReason.NOT_READY: pb.REFUSAL_REASON_NOT_READY,
    RefusalReason.DRAINING: pb.REFUSAL_REASON_DRAINING,
    RefusalReason.STALE_EPOCH: pb.REFUSAL_REASON_STALE_EPOCH,
    RefusalReason.UNSUITABLE: pb.REFUSAL_REASON_UNSUITABLE,
}


class PlacementService(placement_pb2_grpc.PlacementServicer):
    """The answer's snapshot is taken after the decision, in the same step of the event loop."""

    def __init__(
        self,
        calls: Calls,
        snapshot: Callable[[], LoadSnapshot],
        release_placement: Callable[[SessionId, Epoch, PlacementRef], bool],
        release: Callable[[str], bool],
        ring: KeyRing,
    ) -> None:
        self._calls = calls
        self._snapshot = snapshot
        self._release_placement = release_placement
        self._release = release
        self._ring = ring

    async def Reserve(
        self, request: pb.ReserveRequest, context: aio.ServicerContext[pb.ReserveRequest, pb.ReserveResponse]
    ) -> pb.ReserveResponse:
        fault = _fault(request)
        if fault:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, fault)
        lease_ns = _ASSIGN_LEASE_NS if request.door == pb.DOOR_ASSIGN else _RELAY_LEASE_NS
        try:
            answer = self._calls.reserve(_admission_request(request, lease_ns))
        except DuplicateSession as error:
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, str(error))
        match answer:
            case Admitted(leg):
                admitted = pb.Admitted(
                    ticket=leg.ticket,
                    ticket_ttl_ms=lease_ns // NS_PER_MS,
                    key_ids=self._ring.ids,
                    expires_ns=leg.lease_until_ns,
                )
                return pb.ReserveResponse(admitted=admitted, load=snapshot_message(self._snapshot()))
            case Refused(reason, retry_after_ms, message):
                refused = pb.Refused(reason=_REASONS[reason], retry_after_ms=retry_after_ms, message=message)
                return pb.ReserveResponse(refused=refused, load=snapshot_message(self._snapshot()))

    async def Release(
        self,
        request: pb.ReleaseRequest,
        context: aio.ServicerContext[pb.ReleaseRequest, pb.ReleaseResponse],  # noqa: ARG002
    ) -> pb.ReleaseResponse:
        if request.ticket:
            released = self._release(request.ticket)
        else:
            placement = PlacementRef(request.balancer_id, request.balancer_incarnation, request.placement_number)
            released = self._release_placement(SessionId(request.session_id), Epoch(request.epoch), placement)
        return pb.ReleaseResponse(released=released, load=snapshot_message(self._snapshot()))


def _fault(request: pb.ReserveRequest) -> str:
    """What is wrong with the request, naming the field and what is allowed; empty where nothing is."""
    if not is_session_id(request.session_id):
        return "session_id; allowed: 1 to 128 characters of A-Z a-z 0-9 _ . : -"
    if request.epoch < 1:
        return f"epoch is {request.epoch}; allowed: 1 and up"
    if not 0.0 <= request.fair_share_per_s < 1e6:
        return f"fair_share_per_s is {request.fair_share_per_s}; allowed: 0 to 1000000"
    if not is_tenant(request.tenant):
        return "tenant; allowed: at most 64 characters of A-Z a-z 0-9 _ . : -"
    if request.balancer_id and request.placement_number < 1:
        return f"placement_number is {request.placement_number}; allowed: 1 and up"
    return ""


def _admission_request(request: pb.ReserveRequest, lease_ns: int) -> AdmissionRequest:
    placement = None
    if request.balancer_id:
        placement = PlacementRef(request.balancer_id, request.balancer_incarnation, request.placement_number)
    return AdmissionRequest(
        session_id=SessionId(request.session_id),
        epoch=Epoch(request.epoch),
        lease_ns=lease_ns,
        is_adoption=request.kind == pb.PLACEMENT_KIND_ADOPTION,
        is_relayed=request.door != pb.DOOR_ASSIGN,
        agent=request.needs.agent,
        abilities=frozenset(request.needs.abilities),
        fair_share_per_s=request.fair_share_per_s,
        placement=placement,
        oldest_open_placement=request.oldest_open_placement,
        tenant=request.tenant,
    )
