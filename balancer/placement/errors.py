"""A placement that was refused: whose fault, whether to come again, and each runtime's reason."""

from __future__ import annotations

from enum import StrEnum

from balancer.placement.waiting import QueuePlace
from balancer.routing.decision import RuntimeRefusal
from runtime.primitives.errors import Fault, VoiceError

__all__ = ["PlacementRefused", "RefusalCode"]


class RefusalCode(StrEnum):
    """Stable names on every wire. The HTTP status of each is in `PlacementRefused.http_status`."""

    NO_RUNTIME = "no_runtime"
    """Nobody is enrolled."""
    NO_CAPACITY = "no_capacity"
    UNKNOWN_AGENT = "unknown_agent"
    """No enrolled runtime serves the agent."""
    UNSUITABLE = "unsuitable"
    """No enrolled runtime has what was asked for (abilities, version)."""
    SESSION_LIVE = "session_live"
    """The session id is in use."""
    CLOSING = "closing"
    """This balancer is shutting down."""
    CONTROL_UNREACHABLE = "control_unreachable"
    """This relay's control is away, or did not answer."""


_HTTP_STATUS = {
    RefusalCode.NO_RUNTIME: 503,
    RefusalCode.NO_CAPACITY: 503,
    RefusalCode.UNKNOWN_AGENT: 404,
    RefusalCode.UNSUITABLE: 404,
    RefusalCode.SESSION_LIVE: 409,
    RefusalCode.CLOSING: 503,
    RefusalCode.CONTROL_UNREACHABLE: 503,
}


class PlacementRefused(VoiceError):
    """`runtimes` names each runtime's reason; `retry_after_s` is a hint, 0 where coming again does not help; `queue` is where
    the caller stood when its wait was over, or would stand in a queue that is full."""

    fault = Fault.CAPACITY

    def __init__(
        self,
        refusal: RefusalCode,
        message: str,
        runtimes: tuple[RuntimeRefusal, ...] = (),
        retry_after_s: float = 0.0,
        queue: QueuePlace | None = None,
    ) -> None:
        self.refusal = refusal
        self.code = refusal.value
        self.runtimes = runtimes
        self.retry_after_s = retry_after_s
        self.queue = queue
        self.http_status = _HTTP_STATUS[refusal]
        self.retryable = self.http_status == 503
        super().__init__(message)
