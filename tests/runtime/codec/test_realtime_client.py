"""What Realtime clients say: good messages, broken ones, and random ones, which never raise."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.codec.realtime_client import RealtimeDecoder
from runtime.codec.realtime_memory import Continue, KeepItem, RealtimeMemory, Truncate
from runtime.codec.realtime_session import RealtimeSession
from runtime.dialogue.agent import Role
from runtime.dialogue.caller_events import (
    AppendAudio,
    ClearAudio,
    CommitAudio,
    Configure,
    DeleteItem,
    Echo,
    Interrupt,
    Invalid,
    ReportHeard,
    RequestReply,
    SayText,
    ToolOutput,
)
from runtime.dialogue.session_settings import AudioEncoding, ClientTool, SessionSettings


def _decoder(memory: RealtimeMemory | None = None) -> RealtimeDecoder:
    return RealtimeDecoder(RealtimeSession(SessionSettings("a")), memory or RealtimeMemory())


def _decode(message: dict[str, Any], memory: RealtimeMemory | None = None) -> list[object]:
    return list(_decoder(memory).decode(json.dumps(message)))


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
        (
            {
                "type": "conversation.item.create",
                "item": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
            },
            SayText("hello"),
        ),
        (
            {
                "type": "conversation.item.create",
                "item": {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "be kind"}]},
            },
            SayText("be kind", role=Role.SYSTEM),
        ),
        (
            {
                "type": "response.create",
                "response": {"instructions": "brief", "output_modalities": ["text"], "metadata": {"a": "b"}},
            },
            RequestReply("", "brief", False, {"a": "b"}),
        ),
    ],
)
def test_good_messages(message: dict[str, Any], event: object) -> None:
    assert _decode(message) == [event]


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
        (
            {
                "type": "conversation.item.create",
                "item": {"type": "message", "role": "user", "content": [{"type": "input_image"}]},
            },
            "invalid_value",
            ["item.content[0]", "input_image", "input_text"],
        ),
        (
            {"type": "conversation.item.create", "item": {"type": "function_call_output", "call_id": "c", "output": "1"}},
            "invalid_tool_call_id",
            ["no such call"],
        ),
        ({"type": "conversation.item.delete", "item_id": "i", "event_id": "e"}, "item_delete_invalid_item_id", ["'i'"]),
        (
            {"type": "conversation.item.truncate", "item_id": "of an earlier session", "audio_end_ms": 4},
            "item_truncate_invalid_item_id",
            ["earlier"],
        ),
        ({"type": "response.cancel", "response_id": "resp_9"}, "response_cancel_not_active", ["resp_9"]),
        ({"type": "response.create", "response": {"conversation": "none"}}, "invalid_value", ["response.conversation", "auto"]),
        ({"type": "response.create", "response": {"output_modalities": ["audio", "text"]}}, "invalid_value", ["one at a time"]),
        (
            {"type": "session.update", "session": {"tools": [{"type": "mcp"}]}},
            "invalid_value",
            ["session.tools[0].type", "function"],
        ),
        (
            {"type": "session.update", "session": {"tools": [{"type": "function", "name": "a b"}]}},
            "invalid_value",
            ["session.tools[0].name", "64"],
        ),
    ],
)
def test_broken_messages_are_answered(message: dict[str, Any], code: str, words: list[str]) -> None:
    (event,) = _decode(message)
    assert isinstance(event, Invalid)
    assert event.code == code
    assert event.event_id == message.get("event_id", "")
    for word in words:
        assert word in event.message


@pytest.mark.parametrize("text", ["", "nonsense", "[1]", '"x"', "{", "null", '{"type": ' + "[" * 5000])
def test_what_is_no_event_is_answered(text: str) -> None:
    (event,) = _decoder().decode(text)
    assert isinstance(event, Invalid)


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
    decoder = _decoder()
    (event,) = decoder.decode(json.dumps({"type": "session.update", "session": {"instructions": "new", "audio": audio}}))
    assert isinstance(event, Invalid)
    for word in words:
        assert word in event.message
    after = decoder.decode(json.dumps({"type": "session.update", "session": {}}))
    assert after == [Configure(SessionSettings("a")), Echo(RealtimeSession(SessionSettings("a")))]


def test_an_update_keeps_what_it_does_not_mention() -> None:
    decoder = _decoder()
    first = {"audio": {"input": {"format": {"type": "audio/pcmu"}, "turn_detection": None}}}
    decoder.decode(json.dumps({"type": "session.update", "session": first}))
    event, _ = decoder.decode(json.dumps({"type": "session.update", "session": {"instructions": "be brief"}}))
    assert isinstance(event, Configure)
    assert event.settings.input_format.encoding is AudioEncoding.MULAW
    assert event.settings.turn_detection is None
    assert event.settings.instructions == "be brief"


def test_a_duplicate_item_id_has_its_own_code() -> None:
    memory = RealtimeMemory()
    memory.keep({"id": "i1"})
    item = {"id": "i1", "type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}
    (event,) = _decode({"type": "conversation.item.create", "item": item}, memory)
    assert isinstance(event, Invalid)
    assert event.code == "item_create_duplicate_item_id"


def test_a_client_may_speak_of_its_item_before_it_is_told_of_it() -> None:
    decoder = _decoder()
    item = {"id": "mine", "type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}
    create = json.dumps({"type": "conversation.item.create", "item": item})
    assert decoder.decode(create) == [SayText("x", "mine")]
    (again,) = decoder.decode(create)
    assert isinstance(again, Invalid)
    assert again.code == "item_create_duplicate_item_id"
    assert decoder.decode(json.dumps({"type": "conversation.item.delete", "item_id": "mine"})) == [DeleteItem("mine")]


@pytest.mark.parametrize(("asked", "heard"), [(40, 40), (-40, 0), (5_000, 100), (10**400, 100)])
def test_a_truncation_is_clamped_to_what_was_sent(asked: int, heard: int) -> None:
    memory = RealtimeMemory()
    memory.is_reply("item_2_2", 7, "item_2")
    memory.sent("item_2_2", 100)
    message = {"type": "conversation.item.truncate", "item_id": "item_2_2", "content_index": 0, "audio_end_ms": asked}
    assert _decode(message, memory) == [ReportHeard(7, heard, "item_2"), Echo(Truncate("item_2_2", 0, heard))]


def test_a_tool_s_output_waits_for_the_next_response() -> None:
    memory = RealtimeMemory()
    memory.call_opened("call_1", 3)
    memory.call_opened("call_2", 3)
    decoder = _decoder(memory)
    item = {"type": "function_call_output", "call_id": "call_1", "output": "7"}
    (kept,) = decoder.decode(json.dumps({"type": "conversation.item.create", "item": item}))
    assert isinstance(kept, Echo)
    assert isinstance(kept.what, KeepItem)
    assert decoder.decode(json.dumps({"type": "response.create"})) == [ToolOutput("call_1", "7")]
    second, go_on = decoder.decode(json.dumps({"type": "response.create"}))  # and asks again, without the other's
    assert isinstance(second, ToolOutput)
    assert (second.call_id, second.is_error) == ("call_2", True)
    assert go_on == Echo(Continue(3))
    assert decoder.decode(json.dumps({"type": "response.create"})) == [RequestReply()]


def test_calls_that_are_answered_one_by_one_are_each_answered() -> None:
    memory = RealtimeMemory()
    decoder = _decoder(memory)
    answers: list[object] = []
    for call_id in ("call_1", "call_2"):
        memory.call_opened(call_id, 3)
    for call_id in ("call_1", "call_2"):
        item = {"type": "function_call_output", "call_id": call_id, "output": call_id.upper()}
        decoder.decode(json.dumps({"type": "conversation.item.create", "item": item}))
        answers += decoder.decode(json.dumps({"type": "response.create"}))
    assert answers == [ToolOutput("call_1", "CALL_1"), ToolOutput("call_2", "CALL_2"), Echo(Continue(3))]


def test_tools_reach_the_session_and_a_choice_of_none_hides_them() -> None:
    decoder = _decoder()
    tool = {"type": "function", "name": "weather", "description": "d", "parameters": {"type": "object"}}
    event, _ = decoder.decode(json.dumps({"type": "session.update", "session": {"tools": [tool]}}))
    assert isinstance(event, Configure)
    assert event.settings.tools == (ClientTool("weather", "d", '{"type": "object"}'),)
    event, _ = decoder.decode(json.dumps({"type": "session.update", "session": {"tool_choice": "none"}}))
    assert isinstance(event, Configure)
    assert event.settings.tools == ()
    event, _ = decoder.decode(json.dumps({"type": "session.update", "session": {"tool_choice": "required"}}))
    assert isinstance(event, Configure)
    assert [each.name for each in event.settings.tools] == ["weather"]


def test_a_client_may_say_false_for_no_turn_detection() -> None:
    session = {"audio": {"input": {"turn_detection": False}}}
    event = _decode({"type": "session.update", "session": session})[0]
    assert isinstance(event, Configure)
    assert event.settings.turn_detection is None


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
        "conversation.item.delete",
        "conversation.item.retrieve",
        "response.create",
        "response.cancel",
    ]
)
_fields = st.sampled_from(
    ["session", "audio", "item", "audio_end_ms", "event_id", "content_index", "item_id", "response", "response_id"]
)


@given(_kinds, st.dictionaries(_fields, _json))
def test_no_event_raises(kind: str, fields: dict[str, Any]) -> None:
    _decode({**fields, "type": kind})


_sessions = st.dictionaries(
    st.sampled_from(["tools", "tool_choice", "output_modalities", "modalities", "audio", "input_audio_format", "turn_detection"]),
    _json,
)


@given(_sessions, st.booleans())
def test_no_session_raises_in_either_dialect(session: dict[str, Any], is_beta: bool) -> None:
    decoder = RealtimeDecoder(RealtimeSession(SessionSettings("a")), RealtimeMemory(), is_beta=is_beta)
    decoder.decode(json.dumps({"type": "session.update", "session": session}))


@given(st.dictionaries(st.sampled_from(["type", "role", "content", "id", "call_id", "output", "name", "arguments"]), _json))
def test_no_item_raises(item: dict[str, Any]) -> None:
    for kind in ("message", "function_call", "function_call_output"):
        _decode({"type": "conversation.item.create", "item": {**item, "type": kind}})


@given(st.text())
def test_no_text_raises(text: str) -> None:
    _decoder().decode(text)
