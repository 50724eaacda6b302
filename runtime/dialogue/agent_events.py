"""What a session tells its caller, whatever the wire. The conversation makes these; codecs put them on a wire.

Items are the things said, in order, each with an id that is unique in the session. A generation is one reply; it grows by one
with each. Nothing of a generation leaves after its `Flush`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from runtime.dialogue.agent import Role
from runtime.dialogue.session_settings import SessionSettings
from runtime.primitives.reasons import EndReason

__all__ = [
    "AgentEvent",
    "DtmfReceived",
    "Echoed",
    "Flush",
    "InputCleared",
    "InputCommitted",
    "InputWithdrawn",
    "ItemDeleted",
    "OutputHeld",
    "OutputResumed",
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
    "ToolRequested",
    "ToolStarted",
    "TranscriptFailed",
    "TranscriptPartial",
    "TranscriptReady",
    "TransferRequested",
]


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """`resume_token` presents the same session again after a lost connection; empty where resumption is not offered."""

    session_id: str
    epoch: int
    runtime_id: str
    settings: SessionSettings
    resume_token: str = ""


@dataclass(frozen=True, slots=True)
class SessionConfigured:
    settings: SessionSettings


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """`media_time_ms`: onset, padding included, on the caller's media clock.

    While a reply plays this is said only once the speech has proved to be more than a backchannel: just after the `Flush`.
    """

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
    """The caller went on: this item was no turn of its own, its audio is part of the next item.

    A reply that had begun to answer it ends first, with `Flush` and `ReplyStatus.WITHDRAWN`.
    """

    item_id: str


@dataclass(frozen=True, slots=True)
class DtmfReceived:
    """A key of the caller's telephone was taken: one of `0-9 * # A-D`."""

    digit: str


@dataclass(frozen=True, slots=True)
class TextAdded:
    """An item of text was taken into the conversation."""

    item_id: str
    previous_item_id: str
    text: str
    role: Role = Role.CALLER


@dataclass(frozen=True, slots=True)
class ItemDeleted:
    item_id: str


@dataclass(frozen=True, slots=True)
class TranscriptPartial:
    """What the open item is understood to say so far; each replaces the one before, `TranscriptReady` all of them."""

    item_id: str
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
    """`speaks` False: the reply is text alone. `metadata`: as the client gave it with its request."""

    generation: int
    item_id: str
    previous_item_id: str
    speaks: bool = True
    metadata: Mapping[str, str] = field(default_factory=dict)


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
class ToolRequested:
    """A tool that the client declared is to be run by the client, who answers with `ToolOutput` under the same `call_id`.

    The reply waits for it. Text and audio that follow belong to the same generation.
    """

    generation: int
    call_id: str
    name: str
    arguments_json: str


@dataclass(frozen=True, slots=True)
class OutputHeld:
    """The caller speaks over this generation: a client that can should pause its play-out, keeping what it has.

    `Flush` follows where the speech proves to be an interruption, `OutputResumed` where it does not. No audio in between.
    """

    generation: int


@dataclass(frozen=True, slots=True)
class OutputResumed:
    """It was a backchannel or noise: play-out goes on exactly where it stopped."""

    generation: int


@dataclass(frozen=True, slots=True)
class Echoed:
    """An `Echo` of the caller's wire, back."""

    what: object


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
    WITHDRAWN = "withdrawn"
    """The caller had not finished: the reply counts as never given, its turn goes on."""
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
class TransferRequested:
    """The agent hands the call to `target` (a telephone number, SIP address or queue, as the agent's author names it).

    Said when the reply that announced it has been sent; the session goes on until the wire or the caller ends it.
    """

    target: str


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
    | DtmfReceived
    | TextAdded
    | TranscriptPartial
    | ItemDeleted
    | TranscriptReady
    | TranscriptFailed
    | ReplyStarted
    | ReplyText
    | ReplyAudio
    | ToolStarted
    | ToolRequested
    | ToolFinished
    | OutputHeld
    | OutputResumed
    | Echoed
    | Flush
    | ReplyDone
    | SoftError
    | TransferRequested
    | SessionClosed
)
