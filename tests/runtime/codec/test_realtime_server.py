"""What our Realtime server says: the minimum that clients need, ids on everything, and the order within a turn."""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import replace
from typing import Any

from runtime.codec.realtime_memory import Continue, ItemWish, RealtimeMemory
from runtime.codec.realtime_server import RealtimeEncoder
from runtime.codec.realtime_session import RealtimeSession
from runtime.codec.realtime_told import RealtimeTold
from runtime.dialogue import agent_events as ev
from runtime.dialogue.agent import Role
from runtime.dialogue.session_settings import AudioEncoding, AudioFormat, SessionSettings
from runtime.primitives.reasons import EndReason

_SETTINGS = SessionSettings("front-desk")


def _say(*events: ev.AgentEvent, memory: RealtimeMemory | None = None, is_beta: bool = False) -> list[dict[str, Any]]:
    encoder = RealtimeEncoder(RealtimeTold.nothing(RealtimeSession(_SETTINGS)), memory or RealtimeMemory(), is_beta=is_beta)
    return [json.loads(text) for event in events for text in encoder.encode(event)]


def _turn(status: ev.ReplyStatus = ev.ReplyStatus.COMPLETED, is_beta: bool = False) -> list[dict[str, Any]]:
    return _say(
        ev.SessionOpened("s", 1, "r", _SETTINGS),
        ev.SpeechStarted("item_1", 100),
        ev.SpeechStopped("item_1", 900, 400),
        ev.InputCommitted("item_1", ""),
        ev.TranscriptReady("item_1", "hello", 800),
        ev.ReplyStarted(1, "item_2", "item_1"),
        ev.ToolStarted(1, "call_1", "take_message", "{}"),
        ev.ToolFinished(1, "call_1", "take_message", "{}", '"done"', False),
        ev.ReplyText(1, "Hi "),
        ev.ReplyText(1, "there."),
        ev.ReplyAudio(1, b"\1\0" * 480),
        ev.ReplyDone(1, status, "Hi", 20),
        is_beta=is_beta,
    )


def test_the_events_of_a_turn_in_order() -> None:
    kinds = [message["type"] for message in _turn()]
    needed = [
        "session.created",
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.input_audio_transcription.completed",
        "response.created",
        "response.mcp_call.completed",
        "response.output_item.added",  # of the message
        "response.content_part.added",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.done",
    ]
    positions = [len(kinds) - 1 - kinds[::-1].index(kind) for kind in needed if kind != "conversation.item.added"]
    assert positions == sorted(positions)


def test_everything_has_an_event_id_of_its_own() -> None:
    ids = [message["event_id"] for message in _turn()]
    assert len(set(ids)) == len(ids)


def test_audio_text_and_usage_are_whole() -> None:
    messages = _turn()
    delta = next(message for message in messages if message["type"] == "response.output_audio.delta")
    assert b64decode(delta["delta"]) == b"\1\0" * 480
    done = messages[-1]["response"]
    assert done["status"] == "completed"
    assert done["output"][1]["content"][0]["transcript"] == "Hi there."
    assert done["output"][0]["type"] == "mcp_call"
    assert json.loads(done["output"][0]["output"]) == "done"
    usage = done["usage"]
    assert [usage[key] for key in ("total_tokens", "input_tokens", "output_tokens")] == [8, 8, 0]
    assert usage["input_token_details"]["audio_tokens"] == 8  # 800 ms, a token each 100 ms


def test_an_interrupted_reply_says_what_was_heard() -> None:
    done = _turn(ev.ReplyStatus.INTERRUPTED)[-1]["response"]
    assert done["status"] == "cancelled"
    assert done["status_details"]["reason"] == "turn_detected"
    assert done["output"][1]["status"] == "incomplete"
    assert done["output"][1]["content"][0]["transcript"] == "Hi"


def test_an_output_index_names_one_item() -> None:
    by_index: dict[int, set[str]] = {}
    for message in _turn():
        if "output_index" in message:
            item_id = message.get("item_id") or message["item"]["id"]
            by_index.setdefault(message["output_index"], set()).add(item_id)
    assert by_index == {0: {"call_1"}, 1: {"item_2"}}


def test_a_client_s_tool_ends_a_response_and_another_goes_on() -> None:
    memory = RealtimeMemory()
    encoder = RealtimeEncoder(RealtimeTold.nothing(RealtimeSession(_SETTINGS)), memory)

    def say(*events: ev.AgentEvent) -> list[dict[str, Any]]:
        return [json.loads(text) for event in events for text in encoder.encode(event)]

    asked = say(
        ev.ReplyStarted(1, "item_2", ""), ev.ReplyText(1, "Let me see."), ev.ToolRequested(1, "call_1_1", "weather", "{}")
    )
    assert [message["type"] for message in asked[-12:]] == [
        "response.output_item.added",
        "conversation.item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    done = asked[-1]["response"]
    assert (done["status"], [item["type"] for item in done["output"]]) == ("completed", ["message", "function_call"])
    assert memory.open_calls == {"call_1_1"}
    memory.calls_over()
    (created,) = say(ev.Echoed(Continue(1)))
    assert created["response"]["id"] != done["id"]
    rest = say(ev.ReplyText(1, "Fine."), ev.ReplyDone(1, ev.ReplyStatus.COMPLETED, "Let me see. Fine.", 0))
    assert rest[-1]["response"]["id"] == created["response"]["id"]
    assert rest[-1]["response"]["output"][0]["content"][0]["transcript"] == "Fine."
    assert rest[-1]["response"]["output"][0]["id"] not in {item["id"] for item in done["output"]}


def test_a_reply_that_dies_while_the_client_works_ends_what_the_client_asks_for() -> None:
    memory = RealtimeMemory()
    told = _say(
        ev.ReplyStarted(1, "item_2", ""),
        ev.ToolRequested(1, "call_1_1", "weather", "{}"),
        ev.ReplyDone(1, ev.ReplyStatus.INTERRUPTED, "", 0),
        ev.Echoed(Continue(1)),
        memory=memory,
    )
    ends = [message["response"]["status"] for message in told if message["type"] == "response.done"]
    assert ends == ["completed", "cancelled"]
    assert not memory.open_calls
    assert not memory.response_id


def test_a_reply_as_text_alone() -> None:
    told = _say(ev.ReplyStarted(1, "i", "", speaks=False, metadata={"k": "v"}), ev.ReplyText(1, "Yes."),
                ev.ReplyDone(1, ev.ReplyStatus.COMPLETED, "Yes.", 0))  # fmt: skip
    kinds = [message["type"] for message in told]
    assert "response.output_text.delta" in kinds
    assert "response.output_text.done" in kinds
    assert not [kind for kind in kinds if "audio" in kind]
    done = told[-1]["response"]
    assert done["output"][0]["content"] == [{"type": "output_text", "text": "Yes."}]
    assert (done["output_modalities"], done["metadata"]) == (["text"], {"k": "v"})


def test_items_can_be_asked_for_and_taken_out() -> None:
    memory = RealtimeMemory()
    added = ev.TextAdded("item_1", "", "hello", Role.CALLER)
    told = _say(
        added, ev.Echoed(ItemWish("item_1", "e")), ev.ItemDeleted("item_1"), ev.Echoed(ItemWish("item_1", "e2")), memory=memory
    )
    assert told[2]["type"] == "conversation.item.retrieved"
    assert told[2]["item"]["content"] == [{"type": "input_text", "text": "hello"}]
    assert told[3] == {"event_id": told[3]["event_id"], "type": "conversation.item.deleted", "item_id": "item_1"}
    assert (told[4]["error"]["code"], told[4]["error"]["event_id"]) == ("item_retrieve_invalid_item_id", "e2")


def test_partial_transcripts_only_add() -> None:
    told = _say(*(ev.TranscriptPartial("i", text) for text in ("good", "good morn", "wood", "good morning")))
    assert [message["delta"] for message in told] == ["good", " morn", "ing"]


def test_the_beta_dialect_has_its_own_names() -> None:
    told = _turn(is_beta=True)
    kinds = [message["type"] for message in told]
    assert kinds[:2] == ["session.created", "conversation.created"]
    assert {"response.audio.delta", "response.audio_transcript.delta", "conversation.item.created"} <= set(kinds)
    assert not [
        kind for kind in kinds if "output_audio" in kind or "mcp" in kind or (kind.endswith("item.done") and "conv" in kind)
    ]
    session = told[0]["session"]
    assert (session["input_audio_format"], session["modalities"]) == ("pcm16", ["text", "audio"])
    done = told[-1]["response"]
    assert done["output"][0]["content"][0] == {"type": "audio", "transcript": "Hi there."}


def test_errors_echo_the_offending_event() -> None:
    (message,) = _say(ev.SoftError("unknown_event", "type is 'x'", "e7", "type"))
    assert message["type"] == "error"
    assert message["error"]["event_id"] == "e7"
    assert message["error"]["param"] == "type"


def test_a_session_that_the_server_ends_says_why() -> None:
    assert _say(ev.SessionClosed(EndReason.MAXIMUM_LENGTH))[0]["error"]["code"] == "session_expired"
    assert _say(ev.SessionClosed(EndReason.CLOSED_BY_CALLER)) == []


def test_the_last_part_of_a_reply_in_parts_does_not_claim_the_words_of_all() -> None:
    memory = RealtimeMemory()
    told = _say(
        ev.ReplyStarted(1, "item_2", ""),
        ev.ReplyText(1, "Let me see. "),
        ev.ToolRequested(1, "call_1_1", "weather", "{}"),
        ev.Echoed(Continue(1)),
        ev.ReplyText(1, "It rains."),
        ev.ReplyAudio(1, b"\1\0" * 480),
        ev.ReplyDone(1, ev.ReplyStatus.INTERRUPTED, "Let me see.", 20),
        memory=memory,
    )
    transcripts = [message["transcript"] for message in told if message["type"] == "response.output_audio_transcript.done"]
    assert transcripts[0].startswith("Let me see.")
    assert transcripts[1] == ""


def test_a_reply_keeps_the_format_that_it_began_in() -> None:
    telephone = AudioFormat(AudioEncoding.MULAW, 8_000)
    encoder = RealtimeEncoder(RealtimeTold.nothing(RealtimeSession(_SETTINGS)), RealtimeMemory())
    changed = RealtimeSession(replace(_SETTINGS, output_format=telephone))

    def deltas(*events: ev.AgentEvent) -> list[int]:
        told = [json.loads(text) for event in events for text in encoder.encode(event)]
        return [len(b64decode(message["delta"])) for message in told if message["type"] == "response.output_audio.delta"]

    assert deltas(ev.ReplyStarted(1, "a", ""), ev.ReplyAudio(1, bytes(960))) == [960]
    assert deltas(ev.Echoed(changed), ev.ReplyAudio(1, bytes(960)), ev.ReplyDone(1, ev.ReplyStatus.COMPLETED, "", 40)) == [960]
    assert deltas(ev.ReplyStarted(2, "b", "a"), ev.ReplyAudio(2, bytes(320))) == [160]
