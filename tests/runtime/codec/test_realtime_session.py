"""The session object: what we show is what we would accept."""

from __future__ import annotations

import pytest

from runtime.codec.realtime_session import RealtimeSession, merged, shown
from runtime.dialogue.session_settings import AudioEncoding, AudioFormat, ClientTool, ServerVad, SessionSettings


@pytest.mark.parametrize(
    "settings",
    [
        SessionSettings("a"),
        SessionSettings("a", turn_detection=None, instructions="x", speaks=False),
        SessionSettings("a", tools=(ClientTool("t", "d", '{"type": "object"}'),)),
        SessionSettings(
            "a", input_format=AudioFormat(AudioEncoding.MULAW, 8000), turn_detection=ServerVad(0.3, 100, 700, False, False)
        ),
    ],
)
def test_shown_settings_merge_into_themselves(settings: SessionSettings) -> None:
    session = RealtimeSession(settings, settings.tools)
    assert merged(RealtimeSession(SessionSettings("a")), shown("s", session)) == session


def test_pcm_echoes_rate_24000_only() -> None:
    assert shown("s", RealtimeSession(SessionSettings("a")))["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24_000}
