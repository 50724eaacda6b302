"""One response of the OpenAI Realtime protocol as it grows: output items with their indexes, parts, and the `response` object.

A reply of ours is one response, or several: each time the client must run a tool of its own, a response ends with the call, and
the client's next `response.create` begins another that carries on the same reply.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from runtime.codec.realtime_session import shown_format
from runtime.dialogue.agent_events import ReplyStatus, ToolFinished, ToolRequested, ToolStarted
from runtime.dialogue.session_settings import AudioFormat

__all__ = ["Response", "Usage", "Wire"]

_SERVER_LABEL: Final = "switchboard"
_INPUT_TOKEN_MS: Final = 100
_OUTPUT_TOKEN_MS: Final = 50
"""What the protocol's owner counts a token of audio for; text tokens are not counted here."""

Wire: TypeAlias = dict[str, Any]  # Any: JSON


@dataclass(frozen=True, slots=True)
class Usage:
    """Audio that went into and came out of a response, in milliseconds."""

    heard_ms: int
    spoken_ms: int

    def shown(self) -> Wire:
        heard, spoken = self.heard_ms // _INPUT_TOKEN_MS, self.spoken_ms // _OUTPUT_TOKEN_MS
        cached: Wire = {"text_tokens": 0, "audio_tokens": 0, "image_tokens": 0}
        return {
            "total_tokens": heard + spoken,
            "input_tokens": heard,
            "output_tokens": spoken,
            "input_token_details": {
                "cached_tokens": 0,
                "text_tokens": 0,
                "audio_tokens": heard,
                "image_tokens": 0,
                "cached_tokens_details": cached,
            },
            "output_token_details": {"text_tokens": 0, "audio_tokens": spoken},
        }


@dataclass(slots=True)
class Response:
    """Every method answers the events to send, in order. Plain values throughout: it is part of a checkpoint."""

    response_id: str
    item_id: str
    _previous_item_id: str
    _speaks: bool
    _output_format: AudioFormat
    _metadata: Mapping[str, str]
    _conversation_id: str
    _text: str = ""
    _outputs: list[Wire] = field(default_factory=list)
    _message_index: int = -1
    _tool_indexes: dict[str, int] = field(default_factory=dict)

    @property
    def has_message(self) -> bool:
        return self._message_index >= 0

    def created(self) -> list[Wire]:
        return [{"type": "response.created", "response": self._shown("in_progress", None, None)}]

    def text(self, delta: str) -> list[Wire]:
        opened = self._open_message()
        self._text += delta
        kind = "response.output_audio_transcript.delta" if self._speaks else "response.output_text.delta"
        return [*opened, {"type": kind, **self._content(), "delta": delta}]

    def audio(self, wire_bytes: bytes) -> list[Wire]:
        opened = self._open_message()
        delta = b64encode(wire_bytes).decode()
        return [*opened, {"type": "response.output_audio.delta", **self._content(), "delta": delta}]

    def tool_started(self, event: ToolStarted) -> list[Wire]:
        """A tool that runs here is shown as the protocol shows tools that a server runs."""
        item = _server_tool(event.call_id, event.name, event.arguments_json, None, None)
        index = self._tool_indexes[event.call_id] = self._add(item)
        return [
            self._output("added", index, item),
            {"type": "response.mcp_call.in_progress", "item_id": event.call_id, "output_index": index},
        ]

    def tool_finished(self, event: ToolFinished) -> list[Wire]:
        error = {"type": "tool_execution_error", "message": event.result_json} if event.is_error else None
        output = None if event.is_error else event.result_json
        item = _server_tool(event.call_id, event.name, event.arguments_json, output, error)
        index = self._tool_indexes.get(event.call_id, -1)
        if index < 0:
            return []  # it began in a response that is over
        self._outputs[index] = item
        kind = "response.mcp_call.failed" if event.is_error else "response.mcp_call.completed"
        return [{"type": kind, "item_id": event.call_id, "output_index": index}, self._output("done", index, item)]

    def tool_requested(self, event: ToolRequested) -> list[Wire]:
        """The client's own tool. The item is `items()[-1]` afterwards."""
        item = {
            "id": f"item_{event.call_id}",
            "object": "realtime.item",
            "type": "function_call",
            "status": "in_progress",
            "call_id": event.call_id,
            "name": event.name,
            "arguments": "",
        }
        index = self._add(item)
        previous = self.item_id if self.has_message else self._previous_item_id
        done = {**item, "status": "completed", "arguments": event.arguments_json}
        self._outputs[index] = done
        where = {
            "response_id": self.response_id,
            "item_id": item["id"],
            "output_index": index,
            "call_id": event.call_id,
        }
        return [
            self._output("added", index, item),
            {"type": "conversation.item.added", "previous_item_id": previous or None, "item": item},
            {"type": "response.function_call_arguments.delta", **where, "delta": event.arguments_json},
            {
                "type": "response.function_call_arguments.done",
                **where,
                "name": event.name,
                "arguments": event.arguments_json,
            },
            self._output("done", index, done),
            {"type": "conversation.item.done", "previous_item_id": previous or None, "item": done},
        ]

    def done(self, status: ReplyStatus, heard_text: str | None, usage: Usage) -> list[Wire]:
        """`heard_text`: what is left of the message's text where it was cut off; None: all of it."""
        is_whole = status in (ReplyStatus.COMPLETED, ReplyStatus.FAILED)
        closed = self._close_message(self._text if heard_text is None else heard_text, is_whole)
        wire_status, details = _status(status)
        return [*closed, {"type": "response.done", "response": self._shown(wire_status, details, usage)}]

    def message(self) -> Wire | None:
        """The message item as it stands."""
        return self._outputs[self._message_index] if self.has_message else None

    def _open_message(self) -> list[Wire]:
        if self.has_message:
            return []
        item = _message(self.item_id, "in_progress", [])
        self._message_index = self._add(item)
        part = {"type": "audio", "transcript": ""} if self._speaks else {"type": "text", "text": ""}
        return [
            self._output("added", self._message_index, item),
            {"type": "conversation.item.added", "previous_item_id": self._previous_item_id or None, "item": item},
            {"type": "response.content_part.added", **self._content(), "part": part},
        ]

    def _close_message(self, text: str, is_whole: bool) -> list[Wire]:
        if not self.has_message:
            return []
        name, kind = ("transcript", "output_audio") if self._speaks else ("text", "output_text")
        item = _message(self.item_id, "completed" if is_whole else "incomplete", [{"type": kind, name: text}])
        self._outputs[self._message_index] = item
        if self._speaks:
            ends = [
                {"type": "response.output_audio.done", **self._content()},
                {"type": "response.output_audio_transcript.done", **self._content(), "transcript": text},
            ]
        else:
            ends = [{"type": "response.output_text.done", **self._content(), "text": text}]
        part = {"type": kind.removeprefix("output_"), name: text}
        return [
            *ends,
            {"type": "response.content_part.done", **self._content(), "part": part},
            self._output("done", self._message_index, item),
            {"type": "conversation.item.done", "previous_item_id": self._previous_item_id or None, "item": item},
        ]

    def _add(self, item: Wire) -> int:
        self._outputs.append(item)
        return len(self._outputs) - 1

    def _content(self) -> Wire:
        return {
            "response_id": self.response_id,
            "item_id": self.item_id,
            "output_index": self._message_index,
            "content_index": 0,
        }

    def _output(self, what: str, index: int, item: Wire) -> Wire:
        return {
            "type": f"response.output_item.{what}",
            "response_id": self.response_id,
            "output_index": index,
            "item": item,
        }

    def _shown(self, status: str, details: Wire | None, usage: Usage | None) -> Wire:
        return {
            "object": "realtime.response",
            "id": self.response_id,
            "status": status,
            "status_details": details,
            "output": list(self._outputs) if usage is not None else [],
            "conversation_id": self._conversation_id,
            "output_modalities": ["audio" if self._speaks else "text"],
            "max_output_tokens": "inf",
            "audio": {"output": {"format": shown_format(self._output_format), "voice": "heart"}},
            "usage": None if usage is None else usage.shown(),
            "metadata": dict(self._metadata) or None,
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


def _message(item_id: str, status: str, content: list[Wire]) -> Wire:
    return {
        "id": item_id,
        "object": "realtime.item",
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    }


def _server_tool(call_id: str, name: str, arguments: str, output: str | None, error: Wire | None) -> Wire:
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
