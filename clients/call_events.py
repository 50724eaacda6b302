"""What a call tells its caller, as values; made from the messages of our own wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from protos.switchboard.v1 import voice_pb2 as pb

__all__ = [
    "AgentAudio",
    "AgentHeld",
    "AgentResumed",
    "AgentText",
    "CallEvent",
    "CallResumed",
    "CallStarted",
    "CallerSaid",
    "Ended",
    "Flushed",
    "Problem",
    "ReplyDone",
    "ReplyStarted",
    "SpeechStarted",
    "SpeechStopped",
    "ToolRequested",
    "ToolUsed",
    "Transferred",
    "TurnWithdrawn",
    "event_from",
]


@dataclass(frozen=True, slots=True)
class CallStarted:
    """`resume_token`: presents the same session again after a lost connection; empty where the server offers none."""

    session_id: str
    runtime_id: str
    resume_token: str


@dataclass(frozen=True, slots=True)
class CallResumed:
    """The connection was lost and another one is there; nothing that was said is missing, on either side."""


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    media_time_ms: int


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    media_time_ms: int


@dataclass(frozen=True, slots=True)
class CallerSaid:
    """What the caller is understood to have said. Not final: the next one replaces it."""

    text: str
    is_final: bool


@dataclass(frozen=True, slots=True)
class TurnWithdrawn:
    """The caller went on: what `CallerSaid` told last is part of the next turn."""


@dataclass(frozen=True, slots=True)
class ReplyStarted:
    """A reply has a generation, a number that grows."""

    generation: int


@dataclass(frozen=True, slots=True)
class AgentText:
    generation: int
    delta: str


@dataclass(frozen=True, slots=True)
class AgentAudio:
    """At most 20 ms of mono samples at the call's rate."""

    generation: int
    samples: NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class AgentHeld:
    """The caller speaks over the agent: play-out should pause. `Flushed` or `AgentResumed` follows."""

    generation: int


@dataclass(frozen=True, slots=True)
class AgentResumed:
    generation: int


@dataclass(frozen=True, slots=True)
class Flushed:
    """Unplayed audio of generations up to this one is void."""

    generation: int


@dataclass(frozen=True, slots=True)
class ReplyDone:
    """`status`: completed, cancelled, failed or withdrawn. `text`: what was said, as far as it was heard."""

    generation: int
    status: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolUsed:
    """The agent ran a tool of its own; `result_json` is empty while it works."""

    call_id: str
    name: str
    arguments_json: str
    result_json: str


@dataclass(frozen=True, slots=True)
class ToolRequested:
    """The caller's side is to run a tool that it declared, and to answer with `answer_tool`."""

    call_id: str
    name: str
    arguments_json: str


@dataclass(frozen=True, slots=True)
class Transferred:
    target: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault that the call survives."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The server's last word. `reason`: a stable name, for example `closed_by_agent`."""

    reason: str


CallEvent: TypeAlias = (
    CallStarted
    | CallResumed
    | SpeechStarted
    | SpeechStopped
    | CallerSaid
    | TurnWithdrawn
    | ReplyStarted
    | AgentText
    | AgentAudio
    | AgentHeld
    | AgentResumed
    | Flushed
    | ReplyDone
    | ToolUsed
    | ToolRequested
    | Transferred
    | Problem
    | Ended
)

_STATUSES = {
    pb.REPLY_STATUS_COMPLETED: "completed",
    pb.REPLY_STATUS_CANCELLED: "cancelled",
    pb.REPLY_STATUS_FAILED: "failed",
    pb.REPLY_STATUS_WITHDRAWN: "withdrawn",
}


def event_from(message: pb.ConverseResponse) -> CallEvent | None:
    """None: a newer server says something that this client does not know."""
    generation = message.generation
    match message.WhichOneof("payload"):
        case "started":
            started = message.started
            return CallStarted(started.session_id, started.runtime_id, started.resume_token)
        case "session_resumed":
            return CallResumed()
        case "speech_started":
            return SpeechStarted(message.speech_started.media_time_ms)
        case "speech_stopped":
            return SpeechStopped(message.speech_stopped.media_time_ms)
        case "transcript":
            return CallerSaid(message.transcript.text, message.transcript.is_final)
        case "withdrawn":
            return TurnWithdrawn()
        case "reply_started":
            return ReplyStarted(generation)
        case "reply_text":
            return AgentText(generation, message.reply_text.delta)
        case "reply_audio":
            return AgentAudio(generation, np.frombuffer(message.reply_audio.chunk.data, "<i2").astype(np.int16))
        case "held":
            return AgentHeld(generation)
        case "resumed":
            return AgentResumed(generation)
        case "flush":
            return Flushed(generation)
        case "reply_done":
            done = message.reply_done
            return ReplyDone(generation, _STATUSES.get(done.status, "failed"), done.text)
        case "tool_call":
            call = message.tool_call
            return ToolUsed(call.call_id, call.name, call.arguments_json, "")
        case "tool_result":
            return ToolUsed(message.tool_result.call_id, "", "", message.tool_result.result_json)
        case "tool_request":
            asked = message.tool_request
            return ToolRequested(asked.call_id, asked.name, asked.arguments_json)
        case "transfer":
            return Transferred(message.transfer.target)
        case "error":
            return Problem(message.error.code, message.error.message)
        case "ended":
            return Ended(message.ended.reason)
    return None
