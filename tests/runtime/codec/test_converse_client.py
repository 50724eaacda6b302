"""What callers say in our own messages: the contract's breaches are named, and random bytes never raise anything else."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from protos.switchboard.v1 import voice_pb2 as pb
from runtime.codec.converse_client import ConverseDecoder
from runtime.codec.converse_config import BrokenContract, settings_from
from runtime.dialogue.caller_events import (
    AppendAudio,
    ClearAudio,
    CommitAudio,
    Dtmf,
    EndOfInput,
    Goodbye,
    Interrupt,
    Invalid,
    ReportHeard,
    RequestReply,
    SayText,
    ToolOutput,
)

_PCM16K = pb.AudioFormat(encoding=pb.AUDIO_ENCODING_PCM16, sample_rate_hz=16_000)
_SETTINGS = settings_from(pb.SessionConfig(input_format=_PCM16K), "front-desk")


def _decode(**payload: Any) -> object:
    return ConverseDecoder(_SETTINGS).decode(pb.ConverseRequest(**payload))


@pytest.mark.parametrize(
    ("payload", "event"),
    [
        ({"audio": pb.AudioChunk(data=b"\1\0", format=_PCM16K)}, AppendAudio(b"\1\0")),
        ({"end_of_input": pb.EndOfInput()}, EndOfInput()),
        ({"end": pb.EndSession(after_reply=True)}, Goodbye(after_reply=True)),
        ({"end": pb.EndSession()}, Goodbye()),
        ({"interrupt": pb.Interrupt()}, Interrupt("2")),
        ({"commit": pb.CommitInput()}, CommitAudio("2")),
        ({"clear": pb.ClearInput()}, ClearAudio()),
        ({"respond": pb.Respond()}, RequestReply("2")),
        ({"tool_output": pb.ToolOutput(call_id="c", output="7")}, ToolOutput("c", "7", False, "2")),
        ({"dtmf": "#"}, Dtmf("#")),
        ({"heard": pb.Heard(generation=2, played_ms=40)}, ReportHeard(2, 40)),
        ({"text": "hello"}, SayText("hello")),
    ],
)
def test_good_messages(payload: dict[str, Any], event: object) -> None:
    assert _decode(**payload) == event


def test_a_typed_turn_asks_for_its_reply() -> None:
    decoder = ConverseDecoder(_SETTINGS)
    assert decoder.follow_up(SayText("x")) == RequestReply()
    assert decoder.follow_up(EndOfInput()) is None


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (
            {"audio": pb.AudioChunk(data=b"\1\0", format=pb.AudioFormat(encoding=pb.AUDIO_ENCODING_PCM16, sample_rate_hz=8_000))},
            "expected: pcm16 at 16000 Hz",
        ),
        ({"audio": pb.AudioChunk(data=b"\1\0")}, "audio.format.encoding is 0; allowed"),
        ({"audio": pb.AudioChunk(data=b"\1", format=_PCM16K)}, "whole samples"),
        ({"audio": pb.AudioChunk(data=bytes(65_538), format=_PCM16K)}, "65538 bytes; allowed: 1 to 32000"),
        ({"config": pb.SessionConfig()}, "config came twice"),
        ({"ordinal": 7, "end": pb.EndSession()}, "ordinal is 7; allowed: 2"),
    ],
)
def test_breaches_are_named(payload: dict[str, Any], words: str) -> None:
    with pytest.raises(BrokenContract, match=words):
        _decode(**payload)


def test_soft_faults_do_not_end_the_session() -> None:
    assert isinstance(_decode(), Invalid)
    assert isinstance(_decode(text="  "), Invalid)
    assert isinstance(_decode(dtmf="12"), Invalid)
    assert isinstance(_decode(tool_output=pb.ToolOutput(output="x" * 20_000)), Invalid)


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_a_breach(data: bytes) -> None:
    try:
        request = pb.ConverseRequest.FromString(data)
    except DecodeError:
        return
    with suppress(BrokenContract):
        ConverseDecoder(_SETTINGS).decode(request)


@given(st.binary(max_size=2_000), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_audio_of_any_kind_raises_nothing_but_a_breach(data: bytes, encoding: int, rate_hz: int) -> None:
    audio_format = pb.AudioFormat(encoding=encoding, sample_rate_hz=rate_hz)  # type: ignore[arg-type]  # that is the point
    with suppress(BrokenContract):
        _decode(audio=pb.AudioChunk(data=data, format=audio_format))
