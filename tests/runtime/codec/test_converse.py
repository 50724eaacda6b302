"""Our own messages: the contract's breaches are named, chunks are tagged, ordinals count."""

from __future__ import annotations

from typing import Any

import pytest

from protos.switchboard.v1 import voice_pb2 as pb
from runtime.codec.converse import BrokenContract, ConverseDecoder, ConverseEncoder, settings_from
from runtime.dialogue import agent_events as ev
from runtime.dialogue.caller_events import (
    AppendAudio,
    EndOfInput,
    Goodbye,
    Interrupt,
    Invalid,
    ReportHeard,
    RequestReply,
    SayText,
)
from runtime.dialogue.session_settings import AudioEncoding, AudioFormat, SessionSettings

_PCM16K = pb.AudioFormat(encoding=pb.AUDIO_ENCODING_PCM16, sample_rate_hz=16_000)
_SETTINGS = settings_from(pb.SessionConfig(input_format=_PCM16K), "front-desk")


def _decode(**payload: Any) -> object:
    return ConverseDecoder(_SETTINGS).decode(pb.ConverseRequest(**payload))


def test_the_output_format_defaults_to_the_input_format() -> None:
    assert (
        SessionSettings("front-desk", AudioFormat(AudioEncoding.PCM16, 16_000), AudioFormat(AudioEncoding.PCM16, 16_000))
        == _SETTINGS
    )


@pytest.mark.parametrize(
    ("payload", "event"),
    [
        ({"audio": pb.AudioChunk(data=b"\1\0", format=_PCM16K)}, AppendAudio(b"\1\0")),
        ({"end_of_input": pb.EndOfInput()}, EndOfInput()),
        ({"end": pb.EndSession()}, Goodbye()),
        ({"interrupt": pb.Interrupt()}, Interrupt()),
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


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (pb.SessionConfig(), "config.input_format is missing"),
        (
            pb.SessionConfig(input_format=pb.AudioFormat(encoding=pb.AUDIO_ENCODING_PCM16, sample_rate_hz=44_100)),
            "allowed rates: 8000, 16000, 24000",
        ),
        (
            pb.SessionConfig(
                input_format=_PCM16K, output_format=pb.AudioFormat(encoding=pb.AUDIO_ENCODING_UNSPECIFIED, sample_rate_hz=9)
            ),
            "config.output_format.encoding is 0",
        ),
        (pb.SessionConfig(input_format=_PCM16K, metadata={"k": "v" * 2000}), "at most 32 entries"),
        (pb.SessionConfig(input_format=_PCM16K, instructions="x" * 20_000), "config.instructions"),
    ],
)
def test_a_broken_configuration_is_named(config: pb.SessionConfig, words: str) -> None:
    with pytest.raises(BrokenContract, match=words):
        settings_from(config, "front-desk")


def test_chunks_are_tagged_and_ordinals_have_no_gap() -> None:
    encoder = ConverseEncoder(_SETTINGS)
    events: list[ev.AgentEvent] = [
        ev.SessionOpened("s", 1, "r", _SETTINGS),
        ev.InputCommitted("i", ""),  # not said on this wire
        ev.ReplyStarted(1, "i", ""),
        ev.ReplyAudio(1, bytes(640)),
        ev.ReplyAudio(1, bytes(640)),
        ev.Flush(1),
        ev.ReplyDone(1, ev.ReplyStatus.INTERRUPTED, "", 40),
    ]
    messages = [message for event in events for message in encoder.encode(event)]
    assert [message.ordinal for message in messages] == [1, 2, 3, 4, 5, 6]
    chunks = [message.reply_audio.chunk for message in messages if message.HasField("reply_audio")]
    assert [chunk.media_time_ms for chunk in chunks] == [0, 20]
    assert all(chunk.format == _PCM16K for chunk in chunks)
    assert [message.generation for message in messages[1:]] == [1] * 5
