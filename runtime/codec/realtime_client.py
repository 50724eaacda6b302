"""What a client of the OpenAI Realtime protocol says, turned into caller events."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from runtime.codec.audio_formats import BadAudio, from_wire
from runtime.codec.realtime_beta import ga_from_beta
from runtime.codec.realtime_items import created_item
from runtime.codec.realtime_memory import Continue, ItemWish, RealtimeMemory, Truncate
from runtime.codec.realtime_session import LONGEST_INSTRUCTIONS, RealtimeSession, merged, speaks_from
from runtime.codec.realtime_values import InvalidSession
from runtime.dialogue.caller_events import (
    AppendAudio,
    CallerEvent,
    ClearAudio,
    CommitAudio,
    Configure,
    DeleteItem,
    Echo,
    Interrupt,
    Invalid,
    ReportHeard,
    RequestReply,
    ToolOutput,
)

__all__ = ["LONGEST_APPEND_BYTES", "RealtimeDecoder"]

LONGEST_APPEND_BYTES: Final = 512 * 1024
"""Of decoded audio in one `input_audio_buffer.append`: over ten seconds at 24 kHz."""
_APPEND: Final = "input_audio_buffer.append"
_MOST_METADATA: Final = 16
_NO_TOOL_OUTPUT: Final = "the client went on without it"

Events = Sequence[CallerEvent]


class RealtimeDecoder:
    """Decodes one message at a time; knows the session, since audio means nothing without its format.

    A broken message becomes `Invalid`, never an exception: the session goes on.

    Args:
        memory: shared with the session's encoder.
        is_beta: the client speaks the beta dialect.
    """

    def __init__(self, session: RealtimeSession, memory: RealtimeMemory, *, is_beta: bool = False) -> None:
        self.session = session
        self._memory = memory
        self._is_beta = is_beta
        self._json = msgspec.json.Decoder()
        self._decoders: Mapping[str, Callable[[Mapping[str, Any], str], Events]] = {
            "session.update": self._session_update,
            _APPEND: self._append,
            "input_audio_buffer.commit": lambda _, event_id: [CommitAudio(event_id)],
            "input_audio_buffer.clear": lambda _, __: [ClearAudio()],
            "conversation.item.create": lambda event, event_id: created_item(event, event_id, memory),
            "conversation.item.truncate": self._item_truncate,
            "conversation.item.delete": self._item_delete,
            "conversation.item.retrieve": self._item_retrieve,
            "response.create": self._response_create,
            "response.cancel": self._response_cancel,
            "output_audio_buffer.clear": lambda _, event_id: [Interrupt(event_id)],
        }

    def decode(self, message: str) -> Events:
        """One text message: what it asks for, in order."""
        try:
            event = self._json.decode(message)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return [Invalid("invalid_json", "the message is no JSON; expected one event object a text message")]
        if not isinstance(event, dict):
            return [Invalid("invalid_event", "the message is no JSON object; expected one event object a text message")]
        event_id = event.get("event_id")
        event_id = event_id[:512] if isinstance(event_id, str) else ""
        kind = event.get("type")
        decoder = self._decoders.get(kind) if isinstance(kind, str) else None
        if decoder is None:
            allowed = ", ".join(sorted(self._decoders))
            named = str(kind)[:64]
            return [Invalid("unknown_event", f"type is {named!r}; allowed: {allowed}", event_id, "type")]
        return decoder(ga_from_beta(event) if self._is_beta else event, event_id)

    def audio_of(self, message: str) -> bytes | None:
        """The audio of a message that was decoded before; nothing else of it is looked at."""
        if _APPEND not in message:
            return None  # spares the rest their decoding
        try:
            event = self._json.decode(message)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return None
        if not isinstance(event, dict) or event.get("type") != _APPEND:
            return None
        events = self._append(event, "")
        return next((found.pcm for found in events if isinstance(found, AppendAudio)), None)

    def binary(self) -> CallerEvent:
        """What a binary message means on this wire: nothing."""
        return Invalid("invalid_event", "binary messages are not part of this protocol; expected text (JSON) messages")

    def _session_update(self, event: Mapping[str, Any], event_id: str) -> Events:
        session = event.get("session")
        if not isinstance(session, Mapping):
            return [Invalid("invalid_value", "session is missing; expected an object", event_id, "session")]
        try:
            self.session = merged(self.session, session)
        except InvalidSession as error:
            return [Invalid("invalid_value", str(error), event_id, error.parameter)]
        return [Configure(self.session.settings), Echo(self.session)]

    def _append(self, event: Mapping[str, Any], event_id: str) -> Events:
        audio = event.get("audio")
        if not isinstance(audio, str):
            return [Invalid("invalid_value", "audio is missing; expected base64 text", event_id, "audio")]
        if len(audio) > LONGEST_APPEND_BYTES * 4 // 3 + 4:
            text = f"audio has more than {LONGEST_APPEND_BYTES} bytes; send it in smaller pieces"
            return [Invalid("invalid_value", text, event_id, "audio")]
        try:
            return [AppendAudio(from_wire(b64decode(audio, validate=True), self.session.settings.input_format))]
        except BadAudio as error:
            return [Invalid("invalid_value", f"audio: {error}", event_id, "audio")]
        except (binascii.Error, ValueError):
            return [Invalid("invalid_value", "audio is no base64 text", event_id, "audio")]

    def _item_truncate(self, event: Mapping[str, Any], event_id: str) -> Events:
        """Clamped: clients measure by their own clocks, and may count a little more than was sent."""
        played_ms = event.get("audio_end_ms")
        if isinstance(played_ms, bool) or not isinstance(played_ms, (int, float)):
            return [Invalid("invalid_value", "audio_end_ms is missing; expected milliseconds", event_id, "audio_end_ms")]
        item_id = event.get("item_id")
        reply = self._memory.reply_of(item_id) if isinstance(item_id, str) else None
        if reply is None or not isinstance(item_id, str):
            text = f"item_id is {str(item_id)[:64]!r}; no reply of that name was spoken here"
            return [Invalid("item_truncate_invalid_item_id", text, event_id, "item_id")]
        played_ms = min(max(0, int(min(played_ms, 1e9))), self._memory.sent_ms(item_id))
        generation, root_id = reply
        index = event.get("content_index")
        truncated = Truncate(item_id, index if isinstance(index, int) else 0, played_ms)
        return [ReportHeard(generation, played_ms, root_id), Echo(truncated)]

    def _item_delete(self, event: Mapping[str, Any], event_id: str) -> Events:
        item_id = event.get("item_id")
        if not isinstance(item_id, str) or not item_id:
            return [Invalid("invalid_value", "item_id is missing; expected text", event_id, "item_id")]
        if not self._memory.has(item_id):
            text = f"there is no item {item_id[:64]!r}"
            return [Invalid("item_delete_invalid_item_id", text, event_id, "item_id")]
        return [DeleteItem(self._memory.root_of(item_id))]

    def _item_retrieve(self, event: Mapping[str, Any], event_id: str) -> Events:
        return [Echo(ItemWish(str(event.get("item_id"))[:64], event_id))]

    def _response_create(self, event: Mapping[str, Any], event_id: str) -> Events:
        memory = self._memory
        if memory.waiting_generation:
            return self._tools_answered()
        options = event.get("response")
        if options is not None and not isinstance(options, Mapping):
            return [Invalid("invalid_value", "response; expected an object", event_id, "response")]
        try:
            return [_wish(options or {}, event_id)]
        except InvalidSession as error:
            return [Invalid("invalid_value", str(error), event_id, error.parameter)]

    def _tools_answered(self) -> Events:
        """A client asks to go on after each call that it has answered, or once after all. While it still works on some, the
        outputs of the others go their way; where it asks with none, it does without those that are left."""
        memory = self._memory
        answered = memory.answered_calls()
        if answered and memory.open_calls:
            return [ToolOutput(call_id, output, False) for call_id, output in answered]
        left = [ToolOutput(call_id, _NO_TOOL_OUTPUT, True) for call_id in sorted(memory.open_calls)]
        generation = memory.waiting_generation
        memory.calls_over()
        return [*(ToolOutput(call_id, output, False) for call_id, output in answered), *left, Echo(Continue(generation))]

    def _response_cancel(self, event: Mapping[str, Any], event_id: str) -> Events:
        named = event.get("response_id")
        if named is not None and named != self._memory.response_id:
            return [
                Invalid("response_cancel_not_active", f"response {str(named)[:64]!r} is not running", event_id, "response_id")
            ]
        return [Interrupt(event_id)]


def _wish(options: Mapping[str, Any], event_id: str) -> RequestReply:
    """Raises InvalidSession."""
    conversation = options.get("conversation", "auto")
    if conversation not in ("auto", None):
        raise InvalidSession("response.conversation", conversation, "auto; replies outside of the conversation are not offered")
    if options.get("input") is not None:
        raise InvalidSession("response.input", "given", "absent; a reply answers the conversation")
    instructions = options.get("instructions")
    if instructions is not None and (not isinstance(instructions, str) or len(instructions) > LONGEST_INSTRUCTIONS):
        raise InvalidSession(
            "response.instructions", type(instructions).__name__, f"text of at most {LONGEST_INSTRUCTIONS} characters"
        )
    metadata = options.get("metadata") or {}
    if not isinstance(metadata, Mapping) or len(metadata) > _MOST_METADATA or not all(map(_is_short, metadata.values())):
        raise InvalidSession("response.metadata", "invalid", f"an object of at most {_MOST_METADATA} texts of 512 characters")
    modalities = options.get("output_modalities")
    speaks = None if modalities is None else speaks_from(modalities, "response.output_modalities")
    return RequestReply(event_id, instructions, speaks, dict(metadata))


def _is_short(value: object) -> bool:
    return isinstance(value, str) and len(value) <= 512
