"""Every wire's decoder against whatever a peer may send: nothing escapes, nothing grows, and cuts change nothing."""

from __future__ import annotations

import json
import tracemalloc
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from protos.switchboard.v1 import voice_pb2 as pb
from runtime.codec.converse_client import ConverseDecoder
from runtime.codec.converse_config import BrokenContract, format_to, settings_from
from runtime.codec.realtime_client import RealtimeDecoder
from runtime.codec.realtime_memory import RealtimeMemory
from runtime.codec.realtime_server import RealtimeEncoder
from runtime.codec.realtime_session import RealtimeSession
from runtime.codec.realtime_told import RealtimeTold
from runtime.codec.twilio import BrokenStream, MarkClock, TwilioDecoder, start_from
from runtime.dialogue.agent_events import AgentEvent, Echoed, ItemDeleted, SoftError, TextAdded
from runtime.dialogue.caller_events import AppendAudio, CallerEvent, DeleteItem, Echo, Invalid, SayText
from runtime.dialogue.session_settings import AudioEncoding, AudioFormat, SessionSettings
from runtime.primitives.rng import SeededRng
from tests.support.twilio import start_message

Feed = Callable[[bytes], Sequence[CallerEvent]]
_G711 = AudioFormat(AudioEncoding.MULAW, 8_000)
_SETTINGS = SessionSettings("a", _G711, _G711)


def _realtime(is_beta: bool) -> Feed:
    """Decoder and encoder with what lies between them in a conversation that keeps nothing itself."""
    memory, session = RealtimeMemory(), RealtimeSession(_SETTINGS)
    decoder = RealtimeDecoder(session, memory, is_beta=is_beta)
    encoder = RealtimeEncoder(RealtimeTold.nothing(session), memory, is_beta=is_beta)
    count = 0

    def told(event: CallerEvent) -> AgentEvent | None:
        nonlocal count
        match event:
            case Echo(what):
                return Echoed(what)
            case SayText(text, item_id, role):
                count += 1
                return TextAdded(item_id or f"item_{count}", "", text, role)
            case DeleteItem(item_id):
                return ItemDeleted(item_id)
            case Invalid(code, text, event_id, parameter):
                return SoftError(code, text, event_id, parameter)
        return None

    def feed(data: bytes) -> Sequence[CallerEvent]:
        events = decoder.decode(data.decode("utf-8", "surrogateescape"))
        for event in events:
            answer = told(event)
            if answer is not None:
                for text in encoder.encode(answer):
                    json.loads(text)
        return events

    return feed


def _converse() -> Feed:
    decoder = ConverseDecoder(_SETTINGS)

    def feed(data: bytes) -> Sequence[CallerEvent]:
        with suppress(DecodeError, BrokenContract):
            request = pb.ConverseRequest.FromString(data)
            if request.HasField("config"):
                settings_from(request.config, "a")
            request.ordinal = 0
            return [decoder.decode(request)]
        return []

    return feed


def _twilio() -> Feed:
    decoder = TwilioDecoder(MarkClock())

    def feed(data: bytes) -> Sequence[CallerEvent]:
        text = data.decode("utf-8", "surrogateescape")
        with suppress(BrokenStream):
            start_from(text)
        with suppress(BrokenStream):
            return decoder.decode(text)
        return []

    return feed


def _text(**event: Any) -> bytes:
    return json.dumps(event).encode()


def _audio_message(wire: str, data: bytes) -> bytes:
    payload = b64encode(data).decode()
    match wire:
        case "converse":
            chunk = pb.AudioChunk(data=data, format=format_to(_G711))
            return pb.ConverseRequest(audio=chunk).SerializeToString()
        case "twilio":
            return _text(event="media", media={"track": "inbound", "payload": payload})
    return _text(type="input_audio_buffer.append", audio=payload)


_FEEDS: dict[str, Callable[[], Feed]] = {
    "realtime": lambda: _realtime(is_beta=False),
    "realtime-beta": lambda: _realtime(is_beta=True),
    "converse": _converse,
    "twilio": _twilio,
}
_MESSAGE = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
_REALTIME = [
    _text(type="session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": {"type": "server_vad"}}}}),
    _text(type="session.update", session={"tools": [{"type": "function", "name": "a", "parameters": {}}], "tool_choice": "auto"}),
    _text(type="session.update", session={"modalities": ["text"], "input_audio_format": "g711_ulaw", "turn_detection": None}),
    _text(type="conversation.item.create", item=_MESSAGE),
    _text(type="conversation.item.create", item={"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"}),
    _text(type="conversation.item.create", item={"type": "function_call_output", "call_id": "c", "output": "1"}),
    _text(type="conversation.item.retrieve", item_id="item_1"),
    _text(type="conversation.item.delete", item_id="item_1"),
    _text(type="conversation.item.truncate", item_id="item_1", content_index=0, audio_end_ms=10),
    _text(type="response.create", response={"metadata": {"a": "b"}, "output_modalities": ["text"]}),
    _text(type="response.cancel", response_id="resp_1"),
    _audio_message("realtime", bytes(16)),
]
_CORPUS: dict[str, list[bytes]] = {
    "realtime": _REALTIME,
    "realtime-beta": _REALTIME,
    "converse": [
        _audio_message("converse", bytes(16)),
        pb.ConverseRequest(ordinal=7, text="hello").SerializeToString(),
        pb.ConverseRequest(heard=pb.Heard(generation=2, played_ms=40)).SerializeToString(),
        pb.ConverseRequest(tool_output=pb.ToolOutput(call_id="c", output="1")).SerializeToString(),
        pb.ConverseRequest(
            config=pb.SessionConfig(
                input_format=format_to(_G711),
                metadata={"a": "b"},
                tools=[pb.ClientTool(name="t", parameters_json="{}")],
                turn_detection=pb.TurnDetection(silence_duration_ms=500),
            )
        ).SerializeToString(),
    ],
    "twilio": [
        start_message("MZ1", "CA1", {"a": "b"}).encode(),
        _audio_message("twilio", bytes(16)),
        _text(event="mark", mark={"name": "1:100"}),
        _text(event="dtmf", dtmf={"digit": "1"}),
        _text(event="stop"),
    ],
}
_EDIT = st.tuples(st.floats(0, 1), st.sampled_from(["cut", "put", "set", "twice"]), st.binary(min_size=1, max_size=4))
_EDITS = st.lists(_EDIT, max_size=4)

pytestmark = pytest.mark.parametrize("wire", sorted(_FEEDS))


def _edited(data: bytes, edits: list[tuple[float, str, bytes]]) -> bytes:
    for place, what, extra in edits:
        at = int(place * len(data))
        match what:
            case "cut":
                data = data[:at] + data[at + len(extra) :]
            case "put":
                data = data[:at] + extra + data[at:]
            case "set":
                data = data[:at] + extra + data[at + len(extra) :]
            case "twice":
                data = data[:at] + data[at // 2 :]
    return data


@given(data=st.data())
def test_nothing_escapes_from_a_message_that_was_damaged(wire: str, data: st.DataObject) -> None:
    feed = _FEEDS[wire]()
    messages = st.lists(st.tuples(st.sampled_from(_CORPUS[wire]), _EDITS), max_size=4)
    for message, edits in data.draw(messages):
        feed(_edited(message, edits))


@given(data=st.binary(max_size=300))
def test_nothing_escapes_from_random_bytes(wire: str, data: bytes) -> None:
    _FEEDS[wire]()(data)


@given(audio=st.binary(max_size=400), cuts=st.lists(st.integers(0, 400), max_size=6))
def test_how_audio_is_cut_changes_nothing(wire: str, audio: bytes, cuts: list[int]) -> None:
    def heard(pieces: list[bytes]) -> bytes:
        feed = _FEEDS[wire]()
        if wire.startswith("realtime"):  # its formats are said on the wire
            beta = {"input_audio_format": "g711_ulaw"}
            ga = {"audio": {"input": {"format": {"type": "audio/pcmu"}}}}
            feed(_text(type="session.update", session=beta if wire.endswith("beta") else ga))
        events = [event for piece in pieces if piece for event in feed(_audio_message(wire, piece))]
        assert all(isinstance(event, AppendAudio) for event in events)
        return b"".join(event.pcm for event in events if isinstance(event, AppendAudio))

    ends = sorted({0, len(audio), *(cut for cut in cuts if cut < len(audio))})
    assert heard([audio[start:end] for start, end in pairwise(ends)]) == heard([audio])
    assert len(heard([audio])) == 2 * len(audio)


def test_no_memory_grows(wire: str) -> None:
    """Thousands of messages, good and damaged: what a session remembers has a bound, and it is reached early."""
    chance = SeededRng(7)
    feed = _FEEDS[wire]()

    def pour(count: int) -> None:
        for number in range(count):
            message = _CORPUS[wire][int(chance.random() * len(_CORPUS[wire]))]
            if chance.random() < 0.5:
                places = [(chance.random(), ("cut", "put", "set", "twice")[int(chance.random() * 4)], b"x1")]
                message = _edited(message, places)
            else:
                message = message.replace(b'"c"', f'"call-{number}"'.encode()).replace(b"hello", b"hello" + b"o" * 200)
            feed(message)

    tracemalloc.start()
    try:
        pour(20_000)  # more than the bound of what is kept
        before, _ = tracemalloc.get_traced_memory()
        pour(12_000)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 256 * 1024


def test_the_corpus_is_understood(wire: str) -> None:
    """Damage to messages that nobody understands anyway would find nothing."""
    understood = [event for message in _CORPUS[wire] for event in _FEEDS[wire]()(message)]
    assert sum(not isinstance(event, Invalid) for event in understood) >= len(_CORPUS[wire]) // 2
