"""`Assignments/Assign`: places for gRPC callers, who connect to the runtime themselves. The same as `POST /v1/assignments`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import grpc
from structlog.typing import FilteringBoundLogger

from balancer.front.grpc_refusal import refuse, refuse_placement
from balancer.front.needs import needs_from_values
from balancer.front.places import Places
from balancer.front.responses import HttpError
from balancer.placement.errors import PlacementRefused
from balancer.placement.reservation import Door
from balancer.routing.request import PlacementRequest, Priority
from protos.switchboard.v1 import assignment_pb2 as pb
from protos.switchboard.v1 import assignment_pb2_grpc, placement_pb2

__all__ = ["AssignmentService"]

_Context = grpc.aio.ServicerContext[pb.AssignRequest, pb.Assignment]
_MOST_BYTES: Final = 65_536
"""Of a request; the port takes longer messages, for calls."""
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
        if request.ByteSize() > _MOST_BYTES:
            long = HttpError(413, "body_too_large", f"the request is above {_MOST_BYTES} bytes")
            await refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, long)
        try:
            placement = await self._placer.place(_needs(request, self._new_session_id), Door.ASSIGN)
        except HttpError as error:
            await refuse(context, grpc.StatusCode.INVALID_ARGUMENT, error)
        except PlacementRefused as refused:
            self._log.info("refused", code=refused.code)
            await refuse_placement(context, refused)
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
