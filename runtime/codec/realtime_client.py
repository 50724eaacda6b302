"""What a client of the OpenAI Realtime protocol says (GA), turned into caller events."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from runtime.codec.audio_formats import BadAudio, from_wire
from runtime.codec.realtime_session import InvalidSession, merged
from runtime.dialogue.caller_events import (
    AppendAudio,
    CallerEvent,
    ClearAudio,
    CommitAudio,
    Configure,
    Interrupt,
    Invalid,
    ReportHeard,
    RequestReply,
    SayText,
)
from runtime.dialogue.session_settings import SessionSettings

__all__ = ["LONGEST_APPEND_BYTES", "RealtimeDecoder"]

LONGEST_APPEND_BYTES: Final = 512 * 1024
"""Of decoded audio in one `input_audio_buffer.append`: over ten seconds at 24 kHz."""
_LONGEST_TEXT: Final = 16 * 1024


class RealtimeDecoder:
    """Decodes one message at a time; knows the session's settings, since audio means nothing without its format.

    A broken message becomes `Invalid`, never an exception: the session goes on.
    """

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._json = msgspec.json.Decoder()
        self._items: set[str] = set()
        self._decoders: Mapping[str, Callable[[Mapping[str, Any], str], CallerEvent | None]] = {
            "session.update": self._session_update,
            "input_audio_buffer.append": self._append,
            "input_audio_buffer.commit": lambda _, event_id: CommitAudio(event_id),
            "input_audio_buffer.clear": lambda _, __: ClearAudio(),
            "conversation.item.create": self._item_create,
            "conversation.item.truncate": self._item_truncate,
            "conversation.item.delete": lambda _, __: None,
            "conversation.item.retrieve": self._item_retrieve,
            "response.create": lambda _, event_id: RequestReply(event_id),
            "response.cancel": lambda _, event_id: Interrupt(event_id),
            "output_audio_buffer.clear": lambda _, event_id: Interrupt(event_id),
        }

    def decode(self, message: str) -> CallerEvent | None:
        """One text message. None: understood, and nothing is to be done."""
        try:
            event = self._json.decode(message)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return Invalid("invalid_json", "the message is no JSON; expected one event object a text message")
        if not isinstance(event, dict):
            return Invalid("invalid_event", "the message is no JSON object; expected one event object a text message")
        event_id = event.get("event_id")
        event_id = event_id if isinstance(event_id, str) else ""
        kind = event.get("type")
        decoder = self._decoders.get(kind) if isinstance(kind, str) else None
        if decoder is None:
            allowed = ", ".join(sorted(self._decoders))
            named = str(kind)[:64]
            return Invalid("unknown_event", f"type is {named!r}; allowed: {allowed}", event_id, "type")
        return decoder(event, event_id)

    def binary(self) -> CallerEvent:
        """What a binary message means on this wire: nothing."""
        return Invalid("invalid_event", "binary messages are not part of this protocol; expected text (JSON) messages")

    def _session_update(self, event: Mapping[str, Any], event_id: str) -> CallerEvent:
        session = event.get("session")
        if not isinstance(session, Mapping):
            return Invalid("invalid_value", "session is missing; expected an object", event_id, "session")
        try:
            self._settings = merged(self._settings, session)
        except InvalidSession as error:
            return Invalid("invalid_value", str(error), event_id, error.parameter)
        return Configure(self._settings)

    def _append(self, event: Mapping[str, Any], event_id: str) -> CallerEvent:
        audio = event.get("audio")
        if not isinstance(audio, str):
            return Invalid("invalid_value", "audio is missing; expected base64 text", event_id, "audio")
        if len(audio) > LONGEST_APPEND_BYTES * 4 // 3 + 4:
            text = f"audio has more than {LONGEST_APPEND_BYTES} bytes; send it in smaller pieces"
            return Invalid("invalid_value", text, event_id, "audio")
        try:
            return AppendAudio(from_wire(b64decode(audio, validate=True), self._settings.input_format))
        except binascii.Error:
            return Invalid("invalid_value", "audio is no base64 text", event_id, "audio")
        except BadAudio as error:
            return Invalid("invalid_value", f"audio: {error}", event_id, "audio")
        except ValueError:
            return Invalid("invalid_value", "audio is no base64 text", event_id, "audio")

    def _item_create(self, event: Mapping[str, Any], event_id: str) -> CallerEvent:
        item = event.get("item")
        if not isinstance(item, Mapping):
            return Invalid("invalid_value", "item is missing; expected an object", event_id, "item")
        if item.get("type") != "message" or item.get("role") != "user":
            kind = f"{item.get('type')!s:.32} of {item.get('role')!s:.32}"
            return Invalid("invalid_value", f"item is a {kind}; allowed: a message of user", event_id, "item.type")
        parts = item.get("content")
        texts = [
            part.get("text")
            for part in (parts if isinstance(parts, list) else [])
            if isinstance(part, Mapping) and part.get("type") == "input_text"
        ]
        text = " ".join(part for part in texts if isinstance(part, str)).strip()
        if not text or len(text) > _LONGEST_TEXT:
            allowed = f"input_text parts with 1 to {_LONGEST_TEXT} characters in all"
            return Invalid("invalid_value", f"item.content; allowed: {allowed}", event_id, "item.content")
        item_id = item.get("id")
        if isinstance(item_id, str) and item_id:
            if item_id in self._items:
                return Invalid("item_create_duplicate_item_id", f"item {item_id[:64]!r} exists", event_id, "item.id")
            if len(self._items) < 10_000:
                self._items.add(item_id)
            return SayText(text, item_id)
        return SayText(text)

    def _item_truncate(self, event: Mapping[str, Any], event_id: str) -> CallerEvent:
        played_ms = event.get("audio_end_ms")
        if isinstance(played_ms, bool) or not isinstance(played_ms, (int, float)):
            return Invalid("invalid_value", "audio_end_ms is missing; expected milliseconds", event_id, "audio_end_ms")
        return ReportHeard(0, max(0, int(min(played_ms, 1e9))))

    def _item_retrieve(self, event: Mapping[str, Any], event_id: str) -> CallerEvent:
        named = str(event.get("item_id"))[:64]
        return Invalid("item_retrieve_invalid_item_id", f"item {named!r} is not kept", event_id, "item_id")
