"""G.711 against the recommendation's values, and round trips within its steps."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.codec.audio_formats import BadAudio, from_wire, to_wire
from runtime.dialogue.session_settings import PCM16_24K, AudioEncoding, AudioFormat

_MULAW = AudioFormat(AudioEncoding.MULAW, 8_000)
_ALAW = AudioFormat(AudioEncoding.ALAW, 8_000)


@pytest.mark.parametrize(
    ("audio_format", "code", "value"),
    [
        (_MULAW, 0xFF, 0),
        (_MULAW, 0x80, 32_124),
        (_MULAW, 0x00, -32_124),
        (_ALAW, 0xD5, 8),
        (_ALAW, 0xAA, 32_256),
        (_ALAW, 0x2A, -32_256),
    ],
)
def test_known_codes(audio_format: AudioFormat, code: int, value: int) -> None:
    assert np.frombuffer(from_wire(bytes([code]), audio_format), "<i2")[0] == value


@pytest.mark.parametrize("audio_format", [_MULAW, _ALAW])
def test_every_code_survives_a_round_trip(audio_format: AudioFormat) -> None:
    codes = bytes(code for code in range(256) if not (audio_format is _MULAW and code == 0x7F))  # 0x7F is a second zero
    assert to_wire(from_wire(codes, audio_format), audio_format) == codes


@pytest.mark.parametrize("audio_format", [_MULAW, _ALAW])
def test_the_error_is_within_a_step(audio_format: AudioFormat) -> None:
    values = np.arange(-32_768, 32_768, dtype=np.int32)
    back = np.frombuffer(from_wire(to_wire(values.astype("<i2").tobytes(), audio_format), audio_format), "<i2")
    assert (np.abs(back - values) <= np.maximum(16, np.abs(values) // 16 + 32) + (np.abs(values) > 32_000) * 700).all()


def test_half_a_sample_is_refused_with_the_expected_format() -> None:
    with pytest.raises(BadAudio, match="3 bytes are no whole samples; expected pcm16 at 24000 Hz"):
        from_wire(b"abc", PCM16_24K)
