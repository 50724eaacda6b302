"""The session object: what we show is what we would accept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.codec.realtime_session import InvalidSession, RealtimeSession, merged, shown
from runtime.dialogue.session_settings import AudioEncoding, AudioFormat, ClientTool, ServerVad, SessionSettings


@pytest.mark.parametrize(
    "settings",
    [
        SessionSettings("a"),
        SessionSettings("a", turn_detection=None, instructions="x", speaks=False),
        SessionSettings("a", tools=(ClientTool("t", "d", '{"type": "object"}'),)),
        SessionSettings(
            "a", input_format=AudioFormat(AudioEncoding.MULAW, 8000), turn_detection=ServerVad(0.3, 100, 700, False, False, False)
        ),
    ],
)
def test_shown_settings_merge_into_themselves(settings: SessionSettings) -> None:
    session = RealtimeSession(replace(settings, wants_partials=True), settings.tools)  # transcription is shown, and so asked for
    assert merged(RealtimeSession(SessionSettings("a")), shown("s", session)) == session


def test_pcm_echoes_rate_24000_only() -> None:
    assert shown("s", RealtimeSession(SessionSettings("a")))["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24_000}


def test_whoever_asks_for_transcription_gets_the_words_early() -> None:
    session = RealtimeSession(SessionSettings("a"))
    assert not session.settings.wants_partials
    asked = merged(session, {"audio": {"input": {"transcription": {"model": "whisper-1"}}}})
    assert asked.settings.wants_partials
    assert not merged(asked, {"audio": {"input": {"transcription": None}}}).settings.wants_partials


def test_the_wait_for_a_silent_caller_is_a_setting() -> None:
    session = merged(RealtimeSession(SessionSettings("a")), {"audio": {"input": {"turn_detection": {"idle_timeout_ms": 6_000}}}})
    assert session.settings.turn_detection == ServerVad(idle_timeout_ms=6_000)
    with pytest.raises(InvalidSession, match="idle_timeout_ms is 5; allowed: 1000 to 600000"):
        merged(session, {"audio": {"input": {"turn_detection": {"idle_timeout_ms": 5}}}})


def test_a_silence_that_is_named_is_kept_to() -> None:
    session = RealtimeSession(SessionSettings("a"))
    for silence_ms, is_adaptive in ((500, True), (400, False)):
        wanted = {"audio": {"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": silence_ms}}}}
        vad = merged(session, wanted).settings.turn_detection
        assert vad is not None
        assert (vad.silence_duration_ms, vad.is_adaptive) == (silence_ms, is_adaptive)
