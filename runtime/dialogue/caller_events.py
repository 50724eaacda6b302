"""What a caller can do to a session, whatever the wire. Codecs make these; the conversation obeys them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from runtime.dialogue.agent import Role
from runtime.dialogue.session_settings import SessionSettings

__all__ = [
    "AppendAudio",
    "CallerEvent",
    "ClearAudio",
    "CommitAudio",
    "Configure",
    "DeleteItem",
    "Dtmf",
    "Echo",
    "EndOfInput",
    "Goodbye",
    "Interrupt",
    "Invalid",
    "ReportHeard",
    "RequestReply",
    "SayText",
    "ToolOutput",
]


@dataclass(frozen=True, slots=True)
class Configure:
    """The whole settings that shall hold from now on."""

    settings: SessionSettings


@dataclass(frozen=True, slots=True)
class AppendAudio:
    """More of the caller's audio: PCM16 little-endian mono at the input format's rate, whole samples."""

    pcm: bytes


@dataclass(frozen=True, slots=True)
class CommitAudio:
    """What was appended is a complete turn."""

    event_id: str = ""


@dataclass(frozen=True, slots=True)
class ClearAudio:
    """Forget what was appended and not committed."""


@dataclass(frozen=True, slots=True)
class SayText:
    """An item of text: a typed turn of the caller, or what the client adds to the conversation on another's part. A reply comes
    when one is asked for."""

    text: str
    item_id: str = ""
    role: Role = Role.CALLER


@dataclass(frozen=True, slots=True)
class DeleteItem:
    """Take an item out of the conversation."""

    item_id: str


@dataclass(frozen=True, slots=True)
class Echo:
    """Something that the wire answers by itself: it comes back as `Echoed`, in its place among what the caller is told."""

    what: object


@dataclass(frozen=True, slots=True)
class RequestReply:
    """Answer now. What is not None holds for this reply only.

    Attributes:
        instructions: in place of the session's.
        speaks: in place of the session's.
        metadata: handed back with the reply, for the client to know it by.
    """

    event_id: str = ""
    instructions: str | None = None
    speaks: bool | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Stop the running reply."""

    event_id: str = ""


@dataclass(frozen=True, slots=True)
class ReportHeard:
    """How much of a reply's audio was really played: an acknowledgement or a mark while it plays, a truncation after it stopped.

    `generation` 0: the reply whose item is `item_id`, or the newest where that is empty or unknown. Out of range is clamped; an
    older reply changes nothing any more.
    """

    generation: int
    played_ms: int
    item_id: str = ""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The client ran the tool of `ToolRequested`. `output`: a JSON value as text, or plain text; `is_error`: it says why not."""

    call_id: str
    output: str
    is_error: bool = False
    event_id: str = ""


@dataclass(frozen=True, slots=True)
class Dtmf:
    """A key was pressed on the caller's telephone: one of `0-9 * # A-D`."""

    digit: str


@dataclass(frozen=True, slots=True)
class EndOfInput:
    """The caller will say nothing more but still listens."""


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The caller ends the session: now, or when the running reply is over."""

    after_reply: bool = False


@dataclass(frozen=True, slots=True)
class Invalid:
    """A message that breaks the wire's contract and is answered with an error; the session goes on."""

    code: str
    message: str
    event_id: str = ""
    parameter: str = ""


CallerEvent: TypeAlias = (
    Configure
    | AppendAudio
    | CommitAudio
    | ClearAudio
    | SayText
    | DeleteItem
    | Echo
    | RequestReply
    | Interrupt
    | ReportHeard
    | ToolOutput
    | Dtmf
    | EndOfInput
    | Goodbye
    | Invalid
)
