"""What a session tells its caller, whatever the wire. The conversation makes these; codecs put them on a wire.

Items are the things said, in order, each with an id that is unique in the session. A generation is one reply; it grows by one
with each. Nothing of a generation leaves after its `Flush`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from runtime.dialogue.session_settings import SessionSettings
from runtime.primitives.reasons import EndReason

__all__ = [
    "AgentEvent",
    "Flush",
    "InputCleared",
    "InputCommitted",
    "InputWithdrawn",
    "ReplyAudio",
    "ReplyDone",
    "ReplyStarted",
    "ReplyStatus",
    "ReplyText",
    "SessionClosed",
    "SessionConfigured",
    "SessionOpened",
    "SoftError",
    "SpeechStarted",
    "SpeechStopped",
    "TextAdded",
    "ToolFinished",
    "ToolStarted",
    "TranscriptFailed",
    "TranscriptReady",
]


@dataclass(frozen=True, slots=True)
class SessionOpened:
    session_id: str
    epoch: int
    runtime_id: str
    settings: SessionSettings


@dataclass(frozen=True, slots=True)
class SessionConfigured:
    settings: SessionSettings


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """`media_time_ms`: onset, padding included, on the caller's media clock."""

    item_id: str
    media_time_ms: int


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """`media_time_ms`: end of the audio that was taken, silence included; `voiced_until_ms`: of the last voiced frame."""

    item_id: str
    media_time_ms: int
    voiced_until_ms: int


@dataclass(frozen=True, slots=True)
class InputCommitted:
    item_id: str
    previous_item_id: str


@dataclass(frozen=True, slots=True)
class InputCleared:
    pass


@dataclass(frozen=True, slots=True)
class InputWithdrawn:
    """The caller went on: this item was no turn of its own, its audio is part of the next item."""

    item_id: str


@dataclass(frozen=True, slots=True)
class TextAdded:
    """A typed item of the caller was taken into the conversation."""

    item_id: str
    previous_item_id: str
    text: str


@dataclass(frozen=True, slots=True)
class TranscriptReady:
    item_id: str
    text: str
    audio_ms: int


@dataclass(frozen=True, slots=True)
class TranscriptFailed:
    item_id: str
    message: str


@dataclass(frozen=True, slots=True)
class ReplyStarted:
    generation: int
    item_id: str
    previous_item_id: str


@dataclass(frozen=True, slots=True)
class ReplyText:
    generation: int
    delta: str


@dataclass(frozen=True, slots=True)
class ReplyAudio:
    """One frame of at most 20 ms: PCM16 little-endian mono at the output format's rate."""

    generation: int
    pcm: bytes


@dataclass(frozen=True, slots=True)
class ToolStarted:
    generation: int
    call_id: str
    name: str
    arguments_json: str


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """`result_json` is a JSON value; where `is_error`, the failure's text as a JSON string."""

    generation: int
    call_id: str
    name: str
    arguments_json: str
    result_json: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class Flush:
    """Throw away all unplayed audio of generations up to this one."""

    generation: int


class ReplyStatus(StrEnum):
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    """The caller spoke over it."""
    CANCELLED = "cancelled"
    """The client asked for it to stop."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ReplyDone:
    """`text`: all that was said, as far as its audio left. `audio_ms`: how much audio left."""

    generation: int
    status: ReplyStatus
    text: str
    audio_ms: int


@dataclass(frozen=True, slots=True)
class SoftError:
    """A fault that the session survives."""

    code: str
    message: str
    event_id: str = ""
    parameter: str = ""


@dataclass(frozen=True, slots=True)
class SessionClosed:
    reason: EndReason


AgentEvent: TypeAlias = (
    SessionOpened
    | SessionConfigured
    | SpeechStarted
    | SpeechStopped
    | InputCommitted
    | InputCleared
    | InputWithdrawn
    | TextAdded
    | TranscriptReady
    | TranscriptFailed
    | ReplyStarted
    | ReplyText
    | ReplyAudio
    | ToolStarted
    | ToolFinished
    | Flush
    | ReplyDone
    | SoftError
    | SessionClosed
)
