"""The session object: what we show is what we would accept."""

from __future__ import annotations

import pytest

from runtime.codec.realtime_session import merged, shown
from runtime.dialogue.session_settings import AudioEncoding, AudioFormat, ServerVad, SessionSettings


@pytest.mark.parametrize(
    "settings",
    [
        SessionSettings("a"),
        SessionSettings("a", turn_detection=None, instructions="x"),
        SessionSettings(
            "a", input_format=AudioFormat(AudioEncoding.MULAW, 8000), turn_detection=ServerVad(0.3, 100, 700, False, False)
        ),
    ],
)
def test_shown_settings_merge_into_themselves(settings: SessionSettings) -> None:
    assert merged(SessionSettings("a"), shown("s", settings)) == settings


def test_pcm_echoes_rate_24000_only() -> None:
    assert shown("s", SessionSettings("a"))["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24_000}
