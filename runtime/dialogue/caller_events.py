"""What a caller can do to a session, whatever the wire. Codecs make these; the conversation obeys them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from runtime.dialogue.session_settings import SessionSettings

__all__ = [
    "AppendAudio",
    "CallerEvent",
    "ClearAudio",
    "CommitAudio",
    "Configure",
    "EndOfInput",
    "Goodbye",
    "Interrupt",
    "Invalid",
    "ReportHeard",
    "RequestReply",
    "SayText",
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
    """A typed turn. It is answered when a reply is asked for."""

    text: str
    item_id: str = ""


@dataclass(frozen=True, slots=True)
class RequestReply:
    """Answer now."""

    event_id: str = ""


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Stop the running reply."""

    event_id: str = ""


@dataclass(frozen=True, slots=True)
class ReportHeard:
    """How much of a reply's audio was really played. `generation` 0: the newest."""

    generation: int
    played_ms: int


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
    | RequestReply
    | Interrupt
    | ReportHeard
    | EndOfInput
    | Goodbye
    | Invalid
)
