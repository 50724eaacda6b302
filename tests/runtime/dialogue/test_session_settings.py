"""Session settings are valid from birth."""

from __future__ import annotations

import pytest

from runtime.dialogue.session_settings import AudioEncoding, AudioFormat, ServerVad


def test_a_format_that_we_do_not_speak_names_the_allowed_rates() -> None:
    with pytest.raises(ValueError, match="44100 Hz; allowed rates: 8000, 16000, 24000"):
        AudioFormat(AudioEncoding.PCM16, 44_100)
    with pytest.raises(ValueError, match="allowed rates: 8000"):
        AudioFormat(AudioEncoding.ALAW, 16_000)


@pytest.mark.parametrize(
    "fields", [{"threshold": 0.0}, {"threshold": 1.0}, {"prefix_padding_ms": -1}, {"silence_duration_ms": 50}]
)
def test_turn_detection_out_of_range_names_the_range(fields: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="allowed: "):
        ServerVad(**fields)  # type: ignore[arg-type]  # one field at a time
