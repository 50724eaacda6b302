"""`Assignments/Assign`: places for gRPC callers, who connect to the runtime themselves. The same as `POST /v1/assignments`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NoReturn

import grpc
from structlog.typing import FilteringBoundLogger

from balancer.front.needs import needs_from_values
from balancer.front.places import Places
from balancer.front.responses import HttpError
from balancer.placement.errors import PlacementRefused, RefusalCode
from balancer.placement.reservation import Door
from balancer.routing.request import PlacementRequest, Priority
from protos.switchboard.v1 import assignment_pb2 as pb
from protos.switchboard.v1 import assignment_pb2_grpc, placement_pb2
from runtime.primitives.errors import VoiceError
from runtime.wire.headers import REFUSAL_BIN_TRAILER, REFUSAL_REASON_HEADER, RETRY_AFTER_MS_HEADER

__all__ = ["AssignmentService"]

_Context = grpc.aio.ServicerContext[pb.AssignRequest, pb.Assignment]
_MOST_RUNTIMES_NAMED: Final = 16
_STATUSES: Final[Mapping[RefusalCode, grpc.StatusCode]] = {
    RefusalCode.NO_RUNTIME: grpc.StatusCode.UNAVAILABLE,
    RefusalCode.NO_CAPACITY: grpc.StatusCode.RESOURCE_EXHAUSTED,
    RefusalCode.UNKNOWN_AGENT: grpc.StatusCode.NOT_FOUND,
    RefusalCode.UNSUITABLE: grpc.StatusCode.FAILED_PRECONDITION,
    RefusalCode.SESSION_LIVE: grpc.StatusCode.ALREADY_EXISTS,
    RefusalCode.CLOSING: grpc.StatusCode.UNAVAILABLE,
}
_PRIORITIES: Final[Mapping[int, Priority]] = {
    placement_pb2.PRIORITY_UNSPECIFIED: Priority.NORMAL,
    placement_pb2.PRIORITY_LOW: Priority.LOW,
    placement_pb2.PRIORITY_NORMAL: Priority.NORMAL,
    placement_pb2.PRIORITY_HIGH: Priority.HIGH,
}


class AssignmentService(assignment_pb2_grpc.AssignmentsServicer):
    def __init__(self, placer: Places, new_session_id: Callable[[], str], log: FilteringBoundLogger) -> None:
        self._placer = placer
        self._new_session_id = new_session_id
        self._log = log

    async def Assign(self, request: pb.AssignRequest, context: _Context) -> pb.Assignment:
        try:
            placement = await self._placer.place(_needs(request, self._new_session_id), Door.ASSIGN)
        except HttpError as error:
            await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, error)
        except PlacementRefused as refused:
            self._log.info("refused", code=refused.code)
            await _abort(context, _STATUSES[refused.refusal], refused, refused)
        return pb.Assignment(
            session_id=placement.session_id,
            epoch=placement.epoch,
            runtime_id=placement.runtime_id,
            grpc_address=placement.grpc_address,
            websocket_address=placement.websocket_address,
            ticket=placement.ticket,
            ticket_ttl_ms=placement.ticket_ttl_ms,
            reason=placement.reason,
            cross_region=placement.cross_region,
        )


def _needs(request: pb.AssignRequest, new_session_id: Callable[[], str]) -> PlacementRequest:
    """Raises HttpError, which names the field."""
    priority = _PRIORITIES.get(request.priority)
    if priority is None:
        raise HttpError(400, "bad_field", f"priority is {request.priority}; allowed: a Priority of placement.proto")
    values: dict[str, object] = {
        "agent": request.agent,
        "abilities": list(request.abilities),
        "region": request.region,
        "min_version": request.min_version,
        "context_window": request.context_window,
        "priority": priority.value,
        "tenant": request.tenant,
    }
    if request.session_id:
        values["session_id"] = request.session_id
    return needs_from_values(values, new_session_id)


async def _abort(
    context: _Context, status: grpc.StatusCode, error: VoiceError, refused: PlacementRefused | None = None
) -> NoReturn:
    told = pb.AssignmentRefusal(code=error.code, message=str(error))
    trailers: list[tuple[str, str | bytes]] = [(REFUSAL_REASON_HEADER, error.code)]
    if refused is not None:
        told.retry_after_ms = round(refused.retry_after_s * 1000)
        named = refused.runtimes[:_MOST_RUNTIMES_NAMED]
        told.runtimes.extend(
            pb.RuntimeRefusal(runtime_id=each.runtime_id, reason=each.reason.value, detail=each.detail) for each in named
        )
        told.runtimes_left_out = len(refused.runtimes) - len(named)
        if refused.queue is not None:
            told.queue_place = refused.queue.place
            told.estimated_wait_ms = round((refused.queue.estimated_wait_s or 0.0) * 1000)
    if told.retry_after_ms:
        trailers.append((RETRY_AFTER_MS_HEADER, str(told.retry_after_ms)))
    trailers.append((REFUSAL_BIN_TRAILER, told.SerializeToString()))
    await context.abort(status, str(error), tuple(trailers))
    raise AssertionError  # abort raises; the stubs do not say so
