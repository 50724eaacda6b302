"""The settings of a relayed call, and how one can end."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from balancer.continuity.call_memory import MemoryRule

__all__ = ["RelayEnd", "RelayRule", "ReturnRule", "SuccessionRule"]


@dataclass(frozen=True, slots=True)
class SuccessionRule:
    """How a call gets to another runtime. A silent runtime is probed first, and suspected later than two probes could be late."""

    memory: MemoryRule = field(default_factory=MemoryRule)
    probe_after_ms: int = 1_000
    suspect_after_ms: int = 2_000
    move_timeout_ms: int = 5_000
    """A planned move, from the wish to the cut."""
    adopt_timeout_ms: int = 10_000
    """How long a place is looked for when the runtime is gone."""
    most_losses: int = 3
    """Runtimes that a call may lose without a checkpoint in between: it might be what takes them down."""


@dataclass(frozen=True, slots=True)
class ReturnRule:
    """How callers come back who have lost their connection."""

    grace_ms: int = 30_000
    """How long a call waits; 0: not at all."""
    most_away: int = 200
    """Calls of one tenant that may wait at a time."""
    most_bytes: int = 4 * 1024 * 1024
    """Of what a caller was told: a minute of 24 kHz audio in base64."""
    most_age_ms: int = 20_000
    """A caller that had heard nothing for longer before it came back would have missed something."""


@dataclass(frozen=True, slots=True)
class RelayRule:
    max_frame_bytes: int = 1_048_576
    probe_after_ms: int = 20_000
    dead_after_ms: int = 20_000
    stalled_after_ms: int = 10_000
    close_timeout_ms: int = 5_000
    succession: SuccessionRule = field(default_factory=SuccessionRule)
    coming_back: ReturnRule = field(default_factory=ReturnRule)


class RelayEnd(StrEnum):
    """Why a relayed call ended, as the relay saw it."""

    CALLER_CLOSED = "caller_closed"
    RUNTIME_CLOSED = "runtime_closed"
    CALLER_LOST = "caller_lost"
    RUNTIME_LOST = "runtime_lost"
    """And the call had nothing that another runtime could go on with."""
    CALLER_BROKE_PROTOCOL = "caller_broke_protocol"
    RUNTIME_BROKE_PROTOCOL = "runtime_broke_protocol"
    CALLER_STALLED = "caller_stalled"
    NO_CAPACITY = "no_capacity"
    """The runtime was lost and nobody adopted the call."""
    SHUT_DOWN = "shut_down"
