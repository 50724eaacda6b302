"""What Realtime clients say: good messages, broken ones, and random ones, which never raise."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.codec.realtime_client import RealtimeDecoder
from runtime.dialogue.caller_events import (
    AppendAudio,
    ClearAudio,
    CommitAudio,
    Configure,
    Interrupt,
    Invalid,
    ReportHeard,
    RequestReply,
    SayText,
)
from runtime.dialogue.session_settings import AudioEncoding, SessionSettings


def _decode(message: dict[str, Any]) -> object:
    return RealtimeDecoder(SessionSettings("front-desk")).decode(json.dumps(message))


def _audio(data: bytes) -> dict[str, Any]:
    return {"type": "input_audio_buffer.append", "audio": b64encode(data).decode()}


@pytest.mark.parametrize(
    ("message", "event"),
    [
        (_audio(b"\1\0\2\0"), AppendAudio(b"\1\0\2\0")),
        ({"type": "input_audio_buffer.commit", "event_id": "e"}, CommitAudio("e")),
        ({"type": "input_audio_buffer.clear"}, ClearAudio()),
        ({"type": "response.create"}, RequestReply()),
        ({"type": "response.cancel", "event_id": "x"}, Interrupt("x")),
        ({"type": "conversation.item.truncate", "item_id": "i", "content_index": 0, "audio_end_ms": 40}, ReportHeard(0, 40)),
        ({"type": "conversation.item.truncate", "item_id": "i", "audio_end_ms": -40}, ReportHeard(0, 0)),
        (
            {
                "type": "conversation.item.create",
                "item": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
            },
            SayText("hello"),
        ),
        ({"type": "conversation.item.delete", "item_id": "of an earlier session"}, None),
    ],
)
def test_good_messages(message: dict[str, Any], event: object) -> None:
    assert _decode(message) == event


@pytest.mark.parametrize(
    ("message", "code", "words"),
    [
        ({"type": "no.such.event", "event_id": "e1"}, "unknown_event", ["no.such.event", "input_audio_buffer.append"]),
        ({"type": 7}, "unknown_event", ["type is"]),
        (_audio(b"odd"), "invalid_value", ["whole samples", "pcm16 at 24000 Hz"]),
        ({"type": "input_audio_buffer.append", "audio": "!!!"}, "invalid_value", ["base64"]),
        ({"type": "input_audio_buffer.append", "audio": "AAA"}, "invalid_value", ["base64"]),
        ({"type": "input_audio_buffer.append", "audio": "é"}, "invalid_value", ["base64"]),
        ({"type": "input_audio_buffer.append"}, "invalid_value", ["audio is missing"]),
        (_audio(bytes(512 * 1024 + 2)), "invalid_value", ["smaller pieces"]),
        ({"type": "session.update"}, "invalid_value", ["session"]),
        ({"type": "conversation.item.create", "item": {"type": "message", "role": "system"}}, "invalid_value", ["allowed"]),
        ({"type": "conversation.item.retrieve", "item_id": "i"}, "item_retrieve_invalid_item_id", ["'i'"]),
    ],
)
def test_broken_messages_are_answered(message: dict[str, Any], code: str, words: list[str]) -> None:
    event = _decode(message)
    assert isinstance(event, Invalid)
    assert event.code == code
    assert event.event_id == message.get("event_id", "")
    for word in words:
        assert word in event.message


@pytest.mark.parametrize("text", ["", "nonsense", "[1]", '"x"', "{", "null", '{"type": ' + "[" * 5000])
def test_what_is_no_event_is_answered(text: str) -> None:
    assert isinstance(RealtimeDecoder(SessionSettings("a")).decode(text), Invalid)


@pytest.mark.parametrize(
    ("audio", "words"),
    [
        ({"input": {"format": {"type": "audio/pcm", "rate": 16000}}}, ["session.audio.input.format.rate", "16000", "24000"]),
        ({"output": {"format": {"type": "audio/mp3"}}}, ["session.audio.output.format.type", "audio/pcmu"]),
        ({"input": {"turn_detection": {"type": "psychic"}}}, ["server_vad"]),
        (
            {"input": {"turn_detection": {"type": "server_vad", "threshold": 7}}},
            ["session.audio.input.turn_detection.threshold is 7.0", "0.05 to 0.95"],
        ),
        ({"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": "long"}}}, ["silence_duration_ms"]),
        (
            {"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 10**400}}},
            ["silence_duration_ms", "many digits"],
        ),
        (
            {"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 500.5}}},
            ["silence_duration_ms", "whole number"],
        ),
        ({"input": {"turn_detection": {"type": "server_vad", "create_response": "false"}}}, ["create_response", "true | false"]),
        ("loud", ["session.audio"]),
    ],
)
def test_a_wrong_format_is_refused_loudly_and_changes_nothing(audio: object, words: list[str]) -> None:  # requirement V4
    decoder = RealtimeDecoder(SessionSettings("a"))
    event = decoder.decode(json.dumps({"type": "session.update", "session": {"instructions": "new", "audio": audio}}))
    assert isinstance(event, Invalid)
    for word in words:
        assert word in event.message
    after = decoder.decode(json.dumps({"type": "session.update", "session": {}}))
    assert after == Configure(SessionSettings("a"))


def test_an_update_keeps_what_it_does_not_mention() -> None:
    decoder = RealtimeDecoder(SessionSettings("a"))
    first = {"audio": {"input": {"format": {"type": "audio/pcmu"}, "turn_detection": None}}}
    decoder.decode(json.dumps({"type": "session.update", "session": first}))
    event = decoder.decode(json.dumps({"type": "session.update", "session": {"instructions": "be brief"}}))
    assert isinstance(event, Configure)
    assert event.settings.input_format.encoding is AudioEncoding.MULAW
    assert event.settings.turn_detection is None
    assert event.settings.instructions == "be brief"


def test_a_duplicate_item_id_has_its_own_code() -> None:
    decoder = RealtimeDecoder(SessionSettings("a"))
    item = {"id": "i1", "type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}
    text = json.dumps({"type": "conversation.item.create", "item": item})
    assert decoder.decode(text) == SayText("x", "i1")
    event = decoder.decode(text)
    assert isinstance(event, Invalid)
    assert event.code == "item_create_duplicate_item_id"


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
_kinds = st.sampled_from(
    [
        "session.update",
        "input_audio_buffer.append",
        "conversation.item.create",
        "conversation.item.truncate",
        "response.create",
    ]
)
_fields = st.sampled_from(["session", "audio", "item", "audio_end_ms", "event_id", "content_index"])


@given(_kinds, st.dictionaries(_fields, _json))
def test_no_event_raises(kind: str, fields: dict[str, Any]) -> None:
    _decode({**fields, "type": kind})


@given(st.text())
def test_no_text_raises(text: str) -> None:
    RealtimeDecoder(SessionSettings("a")).decode(text)
