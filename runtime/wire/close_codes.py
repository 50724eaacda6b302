"""The one table from reasons to what each wire says: WebSocket close codes, gRPC status names, HTTP statuses.

Legend: WebSocket codes are those of RFC 6455 section 7.4 and the IANA registry (1012 service restart, 1013 try again
later). gRPC statuses are named, since pure rooms do not know grpc.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from runtime.primitives.reasons import EndReason, RefusalReason

__all__ = [
    "GRPC_STATUS_BY_END",
    "GRPC_STATUS_BY_REFUSAL",
    "HTTP_STATUS_BY_REFUSAL",
    "SLOW_CALLER_CLOSE",
    "WEBSOCKET_CLOSE_BY_END",
    "grpc_status_of_close",
]

SLOW_CALLER_CLOSE: Final = (1008, EndReason.SLOW_CALLER.value)
"""Code and reason with which a relay tells a runtime that it has cut off a caller who did not read."""

WEBSOCKET_CLOSE_BY_END: Final[Mapping[EndReason, int]] = MappingProxyType(
    {
        EndReason.CLOSED_BY_CALLER: 1000,
        EndReason.CLOSED_BY_AGENT: 1000,
        EndReason.CONNECTION_LOST: 1001,
        EndReason.IDLE_TIMEOUT: 1000,
        EndReason.MAXIMUM_LENGTH: 1001,
        EndReason.PROTOCOL_ERROR: 1002,
        EndReason.SLOW_CALLER: 1008,
        EndReason.HANDLER_ERROR: 1011,
        EndReason.DRAINED: 1012,
        EndReason.NEVER_SPOKE: 1008,
        EndReason.RUNTIME_LOST: 1012,
        EndReason.NO_CAPACITY: 1013,
    }
)

GRPC_STATUS_BY_END: Final[Mapping[EndReason, str]] = MappingProxyType(
    {
        EndReason.CLOSED_BY_CALLER: "OK",
        EndReason.CLOSED_BY_AGENT: "OK",
        EndReason.CONNECTION_LOST: "CANCELLED",
        EndReason.IDLE_TIMEOUT: "OK",
        EndReason.MAXIMUM_LENGTH: "OK",
        EndReason.PROTOCOL_ERROR: "INVALID_ARGUMENT",
        EndReason.SLOW_CALLER: "RESOURCE_EXHAUSTED",
        EndReason.HANDLER_ERROR: "INTERNAL",
        EndReason.DRAINED: "UNAVAILABLE",
        EndReason.NEVER_SPOKE: "DEADLINE_EXCEEDED",
        EndReason.RUNTIME_LOST: "UNAVAILABLE",
        EndReason.NO_CAPACITY: "RESOURCE_EXHAUSTED",
    }
)

_GRPC_STATUS_BY_CLOSE: Final[Mapping[int, str]] = MappingProxyType(
    {
        1000: "OK",
        1001: "OK",
        1002: "INVALID_ARGUMENT",
        1003: "INVALID_ARGUMENT",
        1007: "INVALID_ARGUMENT",
        1008: "DEADLINE_EXCEEDED",
        1009: "RESOURCE_EXHAUSTED",
        1012: "UNAVAILABLE",
        1013: "RESOURCE_EXHAUSTED",
    }
)

GRPC_STATUS_BY_REFUSAL: Final[Mapping[RefusalReason, str]] = MappingProxyType(
    {
        RefusalReason.LIMIT: "RESOURCE_EXHAUSTED",
        RefusalReason.INFLOW: "RESOURCE_EXHAUSTED",
        RefusalReason.OVERLOAD: "RESOURCE_EXHAUSTED",
        RefusalReason.NO_HEADROOM: "RESOURCE_EXHAUSTED",
        RefusalReason.NOT_READY: "UNAVAILABLE",
        RefusalReason.DRAINING: "UNAVAILABLE",
        RefusalReason.UNREACHABLE: "UNAVAILABLE",
        RefusalReason.STALE_REPORT: "UNAVAILABLE",
        RefusalReason.STALE_EPOCH: "ABORTED",
        RefusalReason.UNSUITABLE: "FAILED_PRECONDITION",
    }
)

HTTP_STATUS_BY_REFUSAL: Final[Mapping[RefusalReason, int]] = MappingProxyType(
    {
        RefusalReason.STALE_EPOCH: 409,
        RefusalReason.UNSUITABLE: 404,
    }
    | {reason: 503 for reason in RefusalReason if reason not in (RefusalReason.STALE_EPOCH, RefusalReason.UNSUITABLE)}
)


def grpc_status_of_close(code: int, text: str) -> str:
    """How a gRPC stream ends whose call was closed on a WebSocket: as it would without one. `text`: the close frame's reason, an
    end's name or what was wrong.

    >>> grpc_status_of_close(1000, "closed_by_agent"), grpc_status_of_close(1008, "slow_caller"), grpc_status_of_close(4000, "")
    ('OK', 'RESOURCE_EXHAUSTED', 'INTERNAL')
    """
    for reason, close_code in WEBSOCKET_CLOSE_BY_END.items():
        if (reason.value, close_code) == (text, code):
            return GRPC_STATUS_BY_END[reason]
    return _GRPC_STATUS_BY_CLOSE.get(code, "INTERNAL")
