"""What each wire's codec remembers of a session, as values: part of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import msgspec

from runtime.codec.checkpoint_message import BadCheckpoint
from runtime.codec.realtime_memory import RealtimeMemory
from runtime.codec.realtime_session import RealtimeSession
from runtime.codec.realtime_told import RealtimeTold

__all__ = ["ConverseState", "RealtimeState", "TwilioState", "wire_state"]

T = TypeVar("T")


@dataclass(slots=True)
class RealtimeState:
    """`session`: as the client has asked for it; `told`: and as it was told."""

    session: RealtimeSession
    told: RealtimeTold
    memory: RealtimeMemory


@dataclass(slots=True)
class TwilioState:
    stream_sid: str
    cleared_upto: int
    generation: int
    sent_ms: float
    marked_ms: float


@dataclass(slots=True)
class ConverseState:
    """Ordinals of the last message each way."""

    heard: int
    told: int
    media_time_ms: int


def wire_state(kind: type[T], wire: object) -> T:
    """Reads what `KeptSession.wire` holds after decoding. Raises BadCheckpoint."""
    try:
        return msgspec.convert(wire, kind)
    except (msgspec.ValidationError, ValueError) as error:
        where = str(error).rpartition(" - at ")[2] if " - at " in str(error) else "it"
        raise BadCheckpoint(f"wire: {where} is not as it should be") from error
