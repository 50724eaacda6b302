"""What a wire remembers goes through a checkpoint whole, in the middle of a response, and is checked when it is read."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from runtime.codec.checkpoint_message import BadCheckpoint
from runtime.codec.realtime_client import RealtimeDecoder
from runtime.codec.realtime_memory import RealtimeMemory
from runtime.codec.realtime_server import RealtimeEncoder
from runtime.codec.realtime_session import RealtimeSession
from runtime.codec.realtime_told import RealtimeTold
from runtime.codec.wire_state import ConverseState, RealtimeState, TwilioState, wire_state
from runtime.dialogue import agent_events as ev
from runtime.dialogue.session_settings import SessionSettings
from runtime.primitives.ids import RuntimeId

_SETTINGS = SessionSettings("desk")
_EVENTS: list[ev.AgentEvent] = [
    ev.SessionOpened("s", 1, RuntimeId("r"), _SETTINGS),
    ev.SpeechStarted("item_0001", 320),
    ev.SpeechStopped("item_0001", 1_400, 900),
    ev.InputCommitted("item_0001", ""),
    ev.TranscriptReady("item_0001", "a table for four", 900),
    ev.ReplyStarted(1, "item_0002", "item_0001", metadata={"a": "b"}),
    ev.ToolStarted(1, "call_1_1", "look", "{}"),
    ev.ToolFinished(1, "call_1_1", "look", "{}", '{"free": 4}', False),
    ev.ReplyText(1, "Very well. "),
    ev.ReplyAudio(1, bytes(960)),
    ev.ToolRequested(1, "call_1_2", "ask", "{}"),
    ev.ReplyText(1, "At eight."),
    ev.ReplyAudio(1, bytes(960)),
    ev.Flush(1),
    ev.ReplyDone(1, ev.ReplyStatus.INTERRUPTED, "Very well.", 40),
    ev.ReplyStarted(2, "item_0003", "item_0002"),
    ev.ReplyText(2, "Yes."),
    ev.ReplyDone(2, ev.ReplyStatus.COMPLETED, "Yes.", 0),
]


def _through(state: Any, kind: type[Any]) -> Any:
    return wire_state(kind, json.loads(msgspec.json.encode(state)))


@pytest.mark.parametrize("cut", range(len(_EVENTS) + 1))
@pytest.mark.parametrize("is_beta", [False, True])
def test_a_realtime_session_is_told_on_as_if_by_one(cut: int, is_beta: bool) -> None:  # requirement C3
    whole = RealtimeEncoder(RealtimeTold.nothing(RealtimeSession(_SETTINGS)), RealtimeMemory(), is_beta=is_beta)
    undisturbed = [message for event in _EVENTS for message in whole.encode(event)]
    memory = RealtimeMemory()
    first = RealtimeEncoder(RealtimeTold.nothing(RealtimeSession(_SETTINGS)), memory, is_beta=is_beta)
    told = [message for event in _EVENTS[:cut] for message in first.encode(event)]
    kept: RealtimeState = _through(RealtimeState(RealtimeSession(_SETTINGS), first.state, memory), RealtimeState)
    second = RealtimeEncoder(kept.told, kept.memory, is_beta=is_beta)
    told += [message for event in _EVENTS[cut:] for message in second.encode(event)]
    assert told == undisturbed


def test_plain_states_come_back() -> None:
    for state in (TwilioState("MZ1", 2, 3, 140.0, 100.0), ConverseState(7, 9, 40)):
        assert _through(state, type(state)) == state


@pytest.mark.parametrize("wire", [None, [], {"stream_sid": 3}, {"stream_sid": "MZ1", "cleared_upto": "private"}])
def test_what_is_no_such_state_is_refused_without_its_words(wire: object) -> None:
    with pytest.raises(BadCheckpoint, match="wire") as refused:
        wire_state(TwilioState, wire)
    assert "private" not in str(refused.value)


def test_only_audio_is_read_again() -> None:
    decoder = RealtimeDecoder(RealtimeSession(_SETTINGS), RealtimeMemory())
    append = {"type": "input_audio_buffer.append", "audio": "AAAAAA=="}
    assert decoder.audio_of(json.dumps(append)) == bytes(4)
    others = [
        {"type": "session.update", "session": {"type": "realtime", "instructions": "input_audio_buffer.append"}},
        {**append, "audio": "no base64!"},
        {**append, "audio": None},
    ]
    assert [decoder.audio_of(json.dumps(other)) for other in others] == [None, None, None]
    assert decoder.audio_of('"input_audio_buffer.append') is None
    assert decoder.session == RealtimeSession(_SETTINGS)
