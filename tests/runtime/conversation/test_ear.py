"""The caller's audio: onsets, utterances, and what of it is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from runtime.conversation.ear import Ear, GoesOn, HeardEvent, Onset, Pause, Utterance
from runtime.dialogue.endpointing import PAUSE_MS
from runtime.dialogue.session_settings import AudioEncoding, AudioFormat, ServerVad, SessionSettings
from runtime.engines.errors import EngineBusy
from runtime.engines.ports import Samples, VoiceActivityStream
from runtime.engines.synthetic import EnergyVad
from tests.support.clocks import ManualClock

pytestmark = pytest.mark.anyio

_SETTINGS = SessionSettings("a", turn_detection=ServerVad(silence_duration_ms=300, prefix_padding_ms=64, is_adaptive=False))


def _pcm(seconds: float, level: int, rate_hz: int = 24_000) -> bytes:
    count = int(seconds * rate_hz)
    return np.where(np.arange(count) // 24 % 2, level, -level).astype("<i2").tobytes()


async def _hear(ear: Ear, pcm: bytes) -> list[HeardEvent]:
    heard = [await ear.hear(frame) for frame in ear.feed(pcm)]
    return [event for event in heard if event is not None]


def _rate(settings: SessionSettings, rate_hz: int) -> SessionSettings:
    return replace(settings, input_format=AudioFormat(AudioEncoding.PCM16, rate_hz))


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 24_000])
@pytest.mark.parametrize("chunk_bytes", [2, 322, 4_800, 10**6])
async def test_a_turn_is_heard_the_same_at_every_rate_and_in_every_chunking(rate_hz: int, chunk_bytes: int) -> None:
    if chunk_bytes == 2:
        rate_hz = 16_000  # sample by sample; the resampler would only make it slow
    ear = Ear(EnergyVad(), _rate(_SETTINGS, rate_hz), ManualClock())
    pcm = _pcm(0.32, 0, rate_hz) + _pcm(0.64, 8_000, rate_hz) + _pcm(0.6, 0, rate_hz)
    heard = [event for start in range(0, len(pcm), chunk_bytes) for event in await _hear(ear, pcm[start : start + chunk_bytes])]
    onset, pause, utterance = heard
    assert isinstance(pause, Pause)
    assert isinstance(onset, Onset)
    assert isinstance(utterance, Utterance)
    assert np.array_equal(pause.utterance.samples, utterance.samples)  # so its words are there when the turn ends
    assert onset.media_time_ms == pytest.approx(320 - 64, abs=64)
    assert utterance.voiced_until_ms == pytest.approx(960, abs=64)
    assert utterance.media_time_ms == pytest.approx(1_260, abs=64)
    assert utterance.audio_ms == pytest.approx(64 + 640 + PAUSE_MS, abs=96)


async def test_an_utterance_that_is_taken_back_is_the_beginning_of_the_next() -> None:
    ear = Ear(EnergyVad(), _SETTINGS, ManualClock())
    _, _, first = await _hear(ear, _pcm(0.4, 8_000) + _pcm(0.5, 0))
    assert isinstance(first, Utterance)
    ear.take_back(first, 22)
    _, _, both = await _hear(ear, _pcm(0.4, 8_000) + _pcm(0.5, 0))
    assert isinstance(both, Utterance)
    assert np.array_equal(both.samples[: len(first.samples)], first.samples)
    assert both.audio_ms > first.audio_ms + 300


async def test_cleared_audio_is_gone() -> None:
    ear = Ear(EnergyVad(), _SETTINGS, ManualClock())
    await _hear(ear, _pcm(0.4, 8_000))
    assert ear.is_hearing_speech
    ear.clear()
    assert not ear.is_hearing_speech
    assert ear.commit() is None


async def test_without_turn_detection_only_a_commit_ends_a_turn() -> None:
    ear = Ear(EnergyVad(), replace(_SETTINGS, turn_detection=None), ManualClock())
    assert await _hear(ear, _pcm(0.5, 8_000) + _pcm(1.0, 0)) == []
    utterance = ear.commit()
    assert utterance is not None
    assert utterance.audio_ms == pytest.approx(1_500, abs=64)
    assert ear.commit() is None


async def test_speech_without_end_is_taken_after_two_minutes() -> None:
    ear = Ear(EnergyVad(), _rate(_SETTINGS, 16_000), ManualClock())
    heard = await _hear(ear, _pcm(125, 8_000, 16_000))
    utterance = heard[1]
    assert isinstance(utterance, Utterance)
    assert utterance.audio_ms == pytest.approx(120_000, abs=100)


async def test_a_detector_that_is_busy_ends_no_call() -> None:  # bug R56
    class _Busy:
        frames = 0

        def open_stream(self) -> VoiceActivityStream:
            return self

        async def speech_ratio(self, frame: Samples) -> float:
            self.frames += 1
            if self.frames % 2 == 0:
                raise EngineBusy("vad", 1)
            return float(np.abs(frame).max() > 1_000)

    ear = Ear(_Busy(), _SETTINGS, ManualClock())
    heard = await _hear(ear, _pcm(0.5, 8_000) + _pcm(0.5, 0))
    assert [type(event) for event in heard] == [Onset, Pause, Utterance]


async def test_a_pause_within_a_turn_is_told_and_so_is_its_end() -> None:
    ear = Ear(EnergyVad(), _SETTINGS, ManualClock())
    heard = await _hear(ear, _pcm(0.4, 8_000) + _pcm(0.25, 0) + _pcm(0.4, 8_000) + _pcm(0.5, 0))
    assert [type(event) for event in heard] == [Onset, Pause, GoesOn, Pause, Utterance]


async def test_what_is_dismissed_is_no_turn_and_the_next_one_is_heard() -> None:
    ear = Ear(EnergyVad(), _SETTINGS, ManualClock())
    await _hear(ear, _pcm(0.4, 8_000) + _pcm(0.25, 0))
    ear.dismiss()
    assert ear.commit() is None
    _, _, utterance = await _hear(ear, _pcm(0.4, 8_000) + _pcm(0.5, 0))
    assert isinstance(utterance, Utterance)
    assert utterance.audio_ms < 750


async def test_what_was_cleared_is_not_counted_as_heard() -> None:
    """Marks say which event holds which sample: what is dropped within a frame would shift all that follow."""
    ear = Ear(EnergyVad(), _rate(_SETTINGS, 16_000), ManualClock())
    ear.feed(_pcm(0.01, 0, 16_000), 1)  # 160 samples: no whole frame
    ear.clear()
    ear.feed(_pcm(0.5, 0, 16_000), 2)
    ear.feed(_pcm(0.5, 0, 16_000), 3)
    assert ear.marks.find(8_000) == (3, 0)
