"""The closed lists of why a session ended and why a place was refused; the values are stable names on every wire."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["EndReason", "RefusalReason"]


class EndReason(StrEnum):
    """Why a session ended. Exactly one a session."""

    CLOSED_BY_CALLER = "closed_by_caller"
    """The caller said goodbye: an `end` message, or a normal WebSocket close (1000, 1001)."""
    CLOSED_BY_AGENT = "closed_by_agent"
    CONNECTION_LOST = "connection_lost"
    """The stream stopped without a goodbye: reset, cancel, bare end of stream, half-open peer found."""
    IDLE_TIMEOUT = "idle_timeout"
    MAXIMUM_LENGTH = "maximum_length"
    PROTOCOL_ERROR = "protocol_error"
    SLOW_CALLER = "slow_caller"
    """The caller did not read; what it may hold was used up."""
    HANDLER_ERROR = "handler_error"
    """A fault of ours or of the agent's code."""
    DRAINED = "drained"
    """Still alive when the drain's bound ran out."""
    NEVER_SPOKE = "never_spoke"
    """Attached, but no valid message came. Never counted as a session; only reservations end so."""
    RUNTIME_LOST = "runtime_lost"
    """The runtime died and nobody adopted the session. Said by the balancer, never by a runtime."""
    NO_CAPACITY = "no_capacity"


class RefusalReason(StrEnum):
    """Why a runtime, or the balancer before it, did not give a place."""

    LIMIT = "limit"
    INFLOW = "inflow"
    OVERLOAD = "overload"
    NOT_READY = "not_ready"
    DRAINING = "draining"
    STALE_EPOCH = "stale_epoch"
    UNSUITABLE = "unsuitable"
    UNREACHABLE = "unreachable"
    """The runtime did not answer the reservation in time. Said by the balancer."""
    NO_HEADROOM = "no_headroom"
    """The effective capacity is used up (R1). Said by the balancer."""
    STALE_REPORT = "stale_report"
    """No report young enough to trust. Said by the balancer."""
