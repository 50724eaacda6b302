"""How a gRPC caller is told that there is no place for it: status, trailers, and the whole of it as a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn

import grpc

from balancer.placement.errors import PlacementRefused, RefusalCode
from protos.switchboard.v1 import assignment_pb2 as pb
from runtime.primitives.errors import VoiceError
from runtime.wire.headers import REFUSAL_BIN_TRAILER, REFUSAL_REASON_HEADER, RETRY_AFTER_MS_HEADER

__all__ = ["CallerLeft", "refuse", "refuse_placement"]

_MOST_RUNTIMES_NAMED: Final = 16
_STATUSES: Final[Mapping[RefusalCode, grpc.StatusCode]] = {
    RefusalCode.NO_RUNTIME: grpc.StatusCode.UNAVAILABLE,
    RefusalCode.NO_CAPACITY: grpc.StatusCode.RESOURCE_EXHAUSTED,
    RefusalCode.UNKNOWN_AGENT: grpc.StatusCode.NOT_FOUND,
    RefusalCode.UNSUITABLE: grpc.StatusCode.FAILED_PRECONDITION,
    RefusalCode.SESSION_LIVE: grpc.StatusCode.ALREADY_EXISTS,
    RefusalCode.CLOSING: grpc.StatusCode.UNAVAILABLE,
    RefusalCode.CONTROL_UNREACHABLE: grpc.StatusCode.UNAVAILABLE,
}
_Context = grpc.aio.ServicerContext[Any, Any]  # Any: the same for every method


class CallerLeft(Exception):
    """Nobody is there to be told."""


async def refuse(context: _Context, status: grpc.StatusCode, error: VoiceError, retry_after_ms: int = 0) -> NoReturn:
    """Ends the call. `retry_after_ms` 0: nothing is said of coming again."""
    told = pb.AssignmentRefusal(code=error.code, message=str(error), retry_after_ms=retry_after_ms)
    await _abort(context, status, told)


async def refuse_placement(context: _Context, refused: PlacementRefused) -> NoReturn:
    """Ends the call, with each runtime's reason and the place in the queue."""
    told = pb.AssignmentRefusal(code=refused.code, message=str(refused), retry_after_ms=round(refused.retry_after_s * 1000))
    named = refused.runtimes[:_MOST_RUNTIMES_NAMED]
    told.runtimes.extend(
        pb.RuntimeRefusal(runtime_id=each.runtime_id, reason=each.reason.value, detail=each.detail) for each in named
    )
    told.runtimes_left_out = len(refused.runtimes) - len(named)
    if refused.queue is not None:
        told.queue_place = refused.queue.place
        told.estimated_wait_ms = round((refused.queue.estimated_wait_s or 0.0) * 1000)
    await _abort(context, _STATUSES[refused.refusal], told)


async def _abort(context: _Context, status: grpc.StatusCode, told: pb.AssignmentRefusal) -> NoReturn:
    trailers: list[tuple[str, str | bytes]] = [(REFUSAL_REASON_HEADER, told.code)]
    if told.retry_after_ms:
        trailers.append((RETRY_AFTER_MS_HEADER, str(told.retry_after_ms)))
    trailers.append((REFUSAL_BIN_TRAILER, told.SerializeToString()))
    try:
        await context.abort(status, told.message, tuple(trailers))
    except grpc.aio.InternalError:  # the call is over: its caller left, or sent more than grpc takes
        raise CallerLeft from None
    raise AssertionError  # abort raises; the stubs do not say so
