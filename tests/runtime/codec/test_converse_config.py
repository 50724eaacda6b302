"""The configuration of a call in our own messages: defaults, and what is refused by name."""

from __future__ import annotations

from contextlib import suppress

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from protos.switchboard.v1 import voice_pb2 as pb
from runtime.codec.converse_config import BrokenContract, settings_from
from runtime.dialogue.session_settings import AudioEncoding, AudioFormat, ClientTool, ServerVad, SessionSettings

_PCM16K = pb.AudioFormat(encoding=pb.AUDIO_ENCODING_PCM16, sample_rate_hz=16_000)
_SETTINGS = settings_from(pb.SessionConfig(input_format=_PCM16K), "front-desk")


def test_the_output_format_defaults_to_the_input_format() -> None:
    assert (
        SessionSettings("front-desk", AudioFormat(AudioEncoding.PCM16, 16_000), AudioFormat(AudioEncoding.PCM16, 16_000))
        == _SETTINGS
    )


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
        (pb.SessionConfig(input_format=_PCM16K, tools=[pb.ClientTool(name="a b")]), "config.tools.0..name"),
        (
            pb.SessionConfig(input_format=_PCM16K, tools=[pb.ClientTool(name="a"), pb.ClientTool(name="a")]),
            "config.tools.1..name",
        ),
        (pb.SessionConfig(input_format=_PCM16K, tools=[pb.ClientTool(name="a", parameters_json="[]")]), "parameters_json"),
        (
            pb.SessionConfig(input_format=_PCM16K, turn_detection=pb.TurnDetection(silence_duration_ms=1)),
            "config.turn_detection.silence_duration_ms is 1; allowed: 100 to 5000",
        ),
    ],
)
def test_a_broken_configuration_is_named(config: pb.SessionConfig, words: str) -> None:
    with pytest.raises(BrokenContract, match=words):
        settings_from(config, "front-desk")


def test_turn_detection_tools_and_text_reach_the_settings() -> None:
    config = pb.SessionConfig(
        input_format=_PCM16K,
        turn_detection=pb.TurnDetection(silence_duration_ms=700, interrupts_response=False),
        tools=[pb.ClientTool(name="weather", parameters_json='{"type": "object"}')],
        text_only=True,
    )
    settings = settings_from(config, "a")
    assert settings.turn_detection == ServerVad(silence_duration_ms=700, interrupts_response=False)
    assert settings.tools == (ClientTool("weather", "", '{"type": "object"}'),)
    assert not settings.speaks
    assert (
        settings_from(pb.SessionConfig(input_format=_PCM16K, turn_detection=pb.TurnDetection(off=True)), "a").turn_detection
        is None
    )


@given(st.binary(max_size=200))
def test_random_configurations_raise_nothing_but_a_breach(data: bytes) -> None:
    try:
        config = pb.SessionConfig.FromString(data)
    except DecodeError:
        return
    with suppress(BrokenContract):
        settings_from(config, "a")
