"""What our Realtime server says: the minimum that clients need, ids on everything, and the order within a turn."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

from runtime.codec.realtime_server import RealtimeEncoder
from runtime.dialogue import agent_events as ev
from runtime.dialogue.session_settings import SessionSettings
from runtime.primitives.reasons import EndReason

_SETTINGS = SessionSettings("front-desk")


def _say(*events: ev.AgentEvent) -> list[dict[str, Any]]:
    encoder = RealtimeEncoder(_SETTINGS)
    return [json.loads(text) for event in events for text in encoder.encode(event)]


def _turn(status: ev.ReplyStatus = ev.ReplyStatus.COMPLETED) -> list[dict[str, Any]]:
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
        "response.content_part.added",
        "response.output_item.added",  # of the tool
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
    assert done["output"][0]["content"][0]["transcript"] == "Hi there."
    assert done["output"][1]["type"] == "mcp_call"
    assert json.loads(done["output"][1]["output"]) == "done"
    assert all(isinstance(done["usage"][key], int) for key in ("total_tokens", "input_tokens", "output_tokens"))


def test_an_interrupted_reply_says_what_was_heard() -> None:
    done = _turn(ev.ReplyStatus.INTERRUPTED)[-1]["response"]
    assert done["status"] == "cancelled"
    assert done["status_details"]["reason"] == "turn_detected"
    assert done["output"][0]["status"] == "incomplete"
    assert done["output"][0]["content"][0]["transcript"] == "Hi"


def test_errors_echo_the_offending_event() -> None:
    (message,) = _say(ev.SoftError("unknown_event", "type is 'x'", "e7", "type"))
    assert message["type"] == "error"
    assert message["error"]["event_id"] == "e7"
    assert message["error"]["param"] == "type"


def test_a_session_that_the_server_ends_says_why() -> None:
    assert _say(ev.SessionClosed(EndReason.MAXIMUM_LENGTH))[0]["error"]["code"] == "session_expired"
    assert _say(ev.SessionClosed(EndReason.CLOSED_BY_CALLER)) == []
