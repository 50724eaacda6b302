"""Placement requests, places and refusals as messages of `relay_control.proto`, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from balancer.placement.errors import PlacementRefused, RefusalCode
from balancer.placement.placement import Placement
from balancer.placement.reservation import Door
from balancer.placement.waiting import QueuePlace
from balancer.routing.decision import RuntimeRefusal
from balancer.routing.request import PlacementRequest, Priority
from protos.switchboard.v1 import assignment_pb2, placement_pb2
from protos.switchboard.v1 import relay_control_pb2 as pb
from runtime.primitives.errors import Fault, VoiceError
from runtime.primitives.ids import is_session_id, is_tenant
from runtime.primitives.reasons import RefusalReason

__all__ = ["BadPlaceRequest", "door_from", "held", "place_request", "placement_from", "refusal", "refusal_from", "request_from"]

_PRIORITIES: Final[Mapping[Priority, placement_pb2.Priority.ValueType]] = MappingProxyType(
    {
        Priority.LOW: placement_pb2.PRIORITY_LOW,
        Priority.NORMAL: placement_pb2.PRIORITY_NORMAL,
        Priority.HIGH: placement_pb2.PRIORITY_HIGH,
    }
)
_PRIORITY_OF: Final = {number: priority for priority, number in _PRIORITIES.items()}
_DOORS: Final = {Door.RELAY: placement_pb2.DOOR_RELAY, Door.ASSIGN: placement_pb2.DOOR_ASSIGN}
_DOOR_OF: Final = {number: door for door, number in _DOORS.items()}
_CODES: Final = {code.value: code for code in RefusalCode}
_REASONS: Final = {reason.value: reason for reason in RefusalReason}
_MOST_ABILITIES: Final = 32


class BadPlaceRequest(VoiceError):
    """A field of a `PlaceRequest` is out of range."""

    code = "bad_place_request"
    fault = Fault.PEER

    def __init__(self, field: str, value: object, allowed: str) -> None:
        self.field = field
        super().__init__(f"{field} is {str(value)[:80]!r}; allowed: {allowed}")


def place_request(
    relay_life: int,
    number: int,
    way: pb.PlaceWay.ValueType,
    door: Door,
    request: PlacementRequest,
    *,
    failed: int = 0,
    lost: frozenset[tuple[str, int]] = frozenset(),
) -> pb.PlaceRequest:
    return pb.PlaceRequest(
        relay_life=relay_life,
        number=number,
        way=way,
        failed=failed,
        door=_DOORS[door],
        session_id=request.session_id,
        epoch=request.epoch if way == pb.PLACE_WAY_NEXT_LEG else 0,
        agent=request.agent,
        abilities=sorted(request.abilities),
        region=request.region,
        min_version=request.min_version,
        context_window=request.context_window,
        priority=_PRIORITIES[request.priority],
        tenant=request.tenant,
        avoid=sorted(request.avoid),
        only_runtime=request.only_runtime,
        is_adoption=request.is_adoption,
        lost=[pb.RuntimeLife(runtime_id=runtime_id, incarnation=incarnation) for runtime_id, incarnation in sorted(lost)],
    )


def request_from(message: pb.PlaceRequest) -> PlacementRequest:
    """Raises BadPlaceRequest."""
    if not is_session_id(message.session_id):
        raise BadPlaceRequest("session_id", message.session_id, "1-128 characters of [A-Za-z0-9_.:-]")
    if not is_tenant(message.tenant):
        raise BadPlaceRequest("tenant", message.tenant, "at most 64 characters of [A-Za-z0-9_.:-]")
    if len(message.abilities) > _MOST_ABILITIES:
        raise BadPlaceRequest("abilities", f"{len(message.abilities)} words", f"at most {_MOST_ABILITIES}")
    priority = _PRIORITY_OF.get(message.priority)
    if priority is None:
        raise BadPlaceRequest("priority", message.priority, "a Priority of placement.proto, but unspecified")
    if message.way == pb.PLACE_WAY_NEXT_LEG and message.epoch < 1:
        raise BadPlaceRequest("epoch", message.epoch, "1 and up")
    return PlacementRequest(
        session_id=message.session_id,
        epoch=message.epoch or 1,
        agent=message.agent,
        abilities=frozenset(message.abilities),
        region=message.region,
        min_version=tuple(message.min_version),
        context_window=message.context_window,
        priority=priority,
        tenant=message.tenant,
        avoid=frozenset(message.avoid),
        only_runtime=message.only_runtime,
        is_adoption=message.is_adoption,
    )


def door_from(message: pb.PlaceRequest) -> Door:
    """Raises BadPlaceRequest."""
    door = _DOOR_OF.get(message.door)
    if door is None:
        raise BadPlaceRequest("door", message.door, "DOOR_RELAY or DOOR_ASSIGN")
    return door


def held(placement: Placement) -> pb.PlaceHeld:
    return pb.PlaceHeld(
        epoch=placement.epoch,
        runtime_id=placement.runtime_id,
        incarnation=placement.incarnation,
        websocket_address=placement.websocket_address,
        grpc_address=placement.grpc_address,
        ticket=placement.ticket,
        ticket_ttl_ms=placement.ticket_ttl_ms,
        reason=placement.reason,
        cross_region=placement.cross_region,
    )


def placement_from(message: pb.PlaceHeld, request: PlacementRequest, number: int) -> Placement:
    """As the relay knows it: by the number of its own request."""
    return Placement(
        request=replace(request, epoch=message.epoch),
        runtime_id=message.runtime_id,
        incarnation=message.incarnation,
        websocket_address=message.websocket_address,
        grpc_address=message.grpc_address,
        ticket=message.ticket,
        ticket_ttl_ms=message.ticket_ttl_ms,
        reason=message.reason,
        cross_region=message.cross_region,
        number=number,
    )


def refusal(refused: PlacementRefused) -> pb.PlaceRefused:
    message = pb.PlaceRefused(
        code=refused.code,
        message=str(refused),
        runtimes=[
            assignment_pb2.RuntimeRefusal(runtime_id=each.runtime_id, reason=each.reason.value, detail=each.detail)
            for each in refused.runtimes
        ],
        retry_after_s=refused.retry_after_s,
    )
    if refused.queue is not None:
        message.queue_place = refused.queue.place
        if refused.queue.estimated_wait_s is not None:
            message.estimated_wait_s = refused.queue.estimated_wait_s
    return message


def refusal_from(message: pb.PlaceRefused) -> PlacementRefused:
    """What a newer control calls otherwise is `no_capacity`, and a reason that is not known here `not_ready`."""
    queue = None
    if message.queue_place:
        queue = QueuePlace(message.queue_place, message.estimated_wait_s if message.HasField("estimated_wait_s") else None)
    return PlacementRefused(
        _CODES.get(message.code, RefusalCode.NO_CAPACITY),
        message.message,
        tuple(
            RuntimeRefusal(each.runtime_id, _REASONS.get(each.reason, RefusalReason.NOT_READY), each.detail)
            for each in message.runtimes
        ),
        message.retry_after_s,
        queue,
    )
