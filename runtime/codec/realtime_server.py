"""What our server says in the OpenAI Realtime protocol (GA), from agent events.

Every event carries an `event_id` (clients stop without it). Tools run on our side, so they are shown as the protocol shows tools
that a server runs: items of type `mcp_call`.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final, assert_never

import msgspec

from runtime.codec.audio_formats import to_wire
from runtime.codec.realtime_session import shown
from runtime.dialogue.agent_events import (
    AgentEvent,
    DtmfReceived,
    Echoed,
    Flush,
    InputCleared,
    InputCommitted,
    InputWithdrawn,
    ItemDeleted,
    OutputHeld,
    OutputResumed,
    ReplyAudio,
    ReplyDone,
    ReplyStarted,
    ReplyStatus,
    ReplyText,
    SessionClosed,
    SessionConfigured,
    SessionOpened,
    SoftError,
    SpeechStarted,
    SpeechStopped,
    TextAdded,
    ToolFinished,
    ToolRequested,
    ToolStarted,
    TranscriptFailed,
    TranscriptPartial,
    TranscriptReady,
    TransferRequested,
)
from runtime.dialogue.session_settings import SessionSettings
from runtime.primitives.reasons import EndReason

__all__ = ["RealtimeEncoder"]

_SERVER_LABEL: Final = "switchboard"
_GOODBYES: Final = {
    EndReason.IDLE_TIMEOUT: ("session_idle", "nothing came for too long"),
    EndReason.MAXIMUM_LENGTH: ("session_expired", "the session has reached its maximum length"),
    EndReason.DRAINED: ("server_draining", "this server is leaving; connect again"),
    EndReason.HANDLER_ERROR: ("server_error", "a fault on our side ended the session"),
    EndReason.PROTOCOL_ERROR: ("protocol_error", "the connection broke the protocol"),
}

Wire = dict[str, Any]


class RealtimeEncoder:
    """Encodes one session's events, in order; remembers the running response, since its events refer to it."""

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._session_id = ""
        self._events = 0
        self._response_id = ""
        self._item_id = ""
        self._transcript = ""
        self._outputs: list[Wire] = []
        self._encode = msgspec.json.Encoder().encode

    def encode(self, event: AgentEvent) -> list[str]:
        """Text messages, in order; an empty list for what this wire does not say."""
        return [self._text(message) for message in self._messages(event)]

    def _text(self, message: Wire) -> str:
        self._events += 1
        return self._encode({"event_id": f"event_{self._events:06d}", **message}).decode()

    def _messages(self, event: AgentEvent) -> list[Wire]:
        match event:
            case SessionOpened(session_id, _, _, settings, _):
                self._session_id, self._settings = session_id, settings
                return [{"type": "session.created", "session": shown(session_id, settings)}]
            case SessionConfigured(settings):
                self._settings = settings
                return [{"type": "session.updated", "session": shown(self._session_id, settings)}]
            case SpeechStarted(item_id, at_ms):
                return [{"type": "input_audio_buffer.speech_started", "item_id": item_id, "audio_start_ms": at_ms}]
            case SpeechStopped(item_id, at_ms, _):
                return [{"type": "input_audio_buffer.speech_stopped", "item_id": item_id, "audio_end_ms": at_ms}]
            case InputCommitted(item_id, previous):
                committed = {"type": "input_audio_buffer.committed", "item_id": item_id, "previous_item_id": previous or None}
                return [committed, *_item_done(_caller_item(item_id, {"type": "input_audio", "transcript": None}), previous)]
            case TextAdded(item_id, previous, text, _):
                return _item_done(_caller_item(item_id, {"type": "input_text", "text": text}), previous)
            case InputWithdrawn(item_id):
                return [{"type": "conversation.item.deleted", "item_id": item_id}]
            case InputCleared():
                return [{"type": "input_audio_buffer.cleared"}]
            case TranscriptReady(item_id, text, audio_ms):
                return [self._transcribed(item_id, text, audio_ms)]
            case TranscriptFailed(item_id, message):
                kind = "conversation.item.input_audio_transcription.failed"
                error = {"type": "transcription_error", "code": "audio_unintelligible", "message": message, "param": None}
                return [{"type": kind, "item_id": item_id, "content_index": 0, "error": error}]
            case ReplyStarted():
                return self._reply_started(event)
            case ReplyText(_, delta):
                self._transcript += delta
                return [{"type": "response.output_audio_transcript.delta", **self._content(), "delta": delta}]
            case ReplyAudio(_, pcm):
                audio = b64encode(to_wire(pcm, self._settings.output_format)).decode()
                return [{"type": "response.output_audio.delta", **self._content(), "delta": audio}]
            case ToolStarted():
                return self._tool_started(event)
            case ToolFinished():
                return self._tool_finished(event)
            case (
                ItemDeleted()
                | Echoed()
                | DtmfReceived()
                | OutputHeld()
                | OutputResumed()
                | ToolRequested()
                | TranscriptPartial()
                | TransferRequested()
            ):
                return []
            case Flush():
                return []  # on this wire speech_started and the cancelled response tell the client to flush
            case ReplyDone():
                return self._reply_done(event)
            case SoftError(code, text, event_id, parameter):
                return [_error("invalid_request_error", code, text, event_id, parameter)]
            case SessionClosed(reason):
                if reason not in _GOODBYES:
                    return []
                return [_error("server_error", *_GOODBYES[reason], "", "")]
            case _:
                assert_never(event)

    def _transcribed(self, item_id: str, text: str, audio_ms: int) -> Wire:
        return {
            "type": "conversation.item.input_audio_transcription.completed",
            "item_id": item_id,
            "content_index": 0,
            "transcript": text,
            "usage": {"type": "duration", "seconds": round(audio_ms / 1000, 3)},
        }

    def _reply_started(self, event: ReplyStarted) -> list[Wire]:
        self._response_id = f"resp_{event.generation:04d}"
        self._item_id = event.item_id
        self._transcript = ""
        self._outputs = []
        item = _agent_item(event.item_id, "in_progress", [])
        part = {"type": "audio", "transcript": ""}
        return [
            {"type": "response.created", "response": self._response("in_progress", None, [])},
            self._output("response.output_item.added", 0, item),
            {"type": "conversation.item.added", "previous_item_id": event.previous_item_id or None, "item": item},
            {"type": "response.content_part.added", **self._content(), "part": part},
        ]

    def _tool_started(self, event: ToolStarted) -> list[Wire]:
        item = _tool_item(event.call_id, event.name, event.arguments_json, None, None)
        return [self._output("response.output_item.added", 1 + len(self._outputs), item)]

    def _tool_finished(self, event: ToolFinished) -> list[Wire]:
        error = {"type": "tool_execution_error", "message": event.result_json} if event.is_error else None
        output = None if event.is_error else event.result_json
        item = _tool_item(event.call_id, event.name, event.arguments_json, output, error)
        self._outputs.append(item)
        return [self._output("response.output_item.done", len(self._outputs), item)]

    def _reply_done(self, event: ReplyDone) -> list[Wire]:
        is_whole = event.status in (ReplyStatus.COMPLETED, ReplyStatus.FAILED)
        transcript = self._transcript if is_whole else event.text
        part = {"type": "audio", "transcript": transcript}
        item = _agent_item(self._item_id, "completed" if is_whole else "incomplete", [part])
        status, details = _status(event.status)
        return [
            {"type": "response.output_audio.done", **self._content()},
            {"type": "response.output_audio_transcript.done", **self._content(), "transcript": transcript},
            {"type": "response.content_part.done", **self._content(), "part": part},
            self._output("response.output_item.done", 0, item),
            {"type": "conversation.item.done", "previous_item_id": None, "item": item},
            {"type": "response.done", "response": self._response(status, details, [item, *self._outputs])},
        ]

    def _content(self) -> Wire:
        return {"response_id": self._response_id, "item_id": self._item_id, "output_index": 0, "content_index": 0}

    def _output(self, kind: str, index: int, item: Wire) -> Wire:
        return {"type": kind, "response_id": self._response_id, "output_index": index, "item": item}

    def _response(self, status: str, details: Wire | None, output: list[Wire]) -> Wire:
        usage = None
        if status != "in_progress":
            # We count no tokens; the fields are there because clients' types demand integers.
            tokens = {"text_tokens": 0, "audio_tokens": 0}
            usage = {
                "total_tokens": 0,
                "input_tokens": 0,
                "output_tokens": 0,
                "input_token_details": {"cached_tokens": 0, **tokens},
                "output_token_details": tokens,
            }
        return {
            "object": "realtime.response",
            "id": self._response_id,
            "status": status,
            "status_details": details,
            "output": output,
            "conversation_id": self._session_id,
            "output_modalities": ["audio"],
            "max_output_tokens": "inf",
            "usage": usage,
            "metadata": None,
        }


def _status(status: ReplyStatus) -> tuple[str, Wire | None]:
    match status:
        case ReplyStatus.COMPLETED | ReplyStatus.FAILED:
            # A failed reply ended with a spoken apology: for the client it is a complete response.
            return "completed", None
        case ReplyStatus.INTERRUPTED | ReplyStatus.WITHDRAWN:
            return "cancelled", {"type": "cancelled", "reason": "turn_detected"}
        case ReplyStatus.CANCELLED:
            return "cancelled", {"type": "cancelled", "reason": "client_cancelled"}


def _caller_item(item_id: str, part: Wire) -> Wire:
    return {
        "id": item_id,
        "object": "realtime.item",
        "type": "message",
        "status": "completed",
        "role": "user",
        "content": [part],
    }


def _agent_item(item_id: str, status: str, content: list[Wire]) -> Wire:
    shown_parts = [{"type": "output_audio", "transcript": part["transcript"]} for part in content]
    return {
        "id": item_id,
        "object": "realtime.item",
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": shown_parts,
    }


def _tool_item(call_id: str, name: str, arguments: str, output: str | None, error: Wire | None) -> Wire:
    return {
        "id": call_id,
        "type": "mcp_call",
        "server_label": _SERVER_LABEL,
        "name": name,
        "arguments": arguments,
        "approval_request_id": None,
        "output": output,
        "error": error,
    }


def _item_done(item: Wire, previous: str) -> list[Wire]:
    return [
        {"type": "conversation.item.added", "previous_item_id": previous or None, "item": item},
        {"type": "conversation.item.done", "previous_item_id": previous or None, "item": item},
    ]


def _error(kind: str, code: str, text: str, event_id: str, parameter: str) -> Wire:
    error = {"type": kind, "code": code, "message": text, "param": parameter or None, "event_id": event_id or None}
    return {"type": "error", "error": error}
