"""The recogniser on human speech, on what is no speech, and at its borders."""

from __future__ import annotations

import threading
from pathlib import Path

import anyio
import numpy as np
import pytest

import perf.demo
from clients.wav_files import read_wav
from perf.demo.scoring import word_error_rate
from runtime.engines.loaded import LoadedEngines
from runtime.engines.ports import INPUT_RATE_HZ, Samples
from runtime.engines.whisper import WhisperRecognizer

pytestmark = [pytest.mark.models, pytest.mark.anyio]

RECORDINGS = sorted((Path(perf.demo.__file__).parent / "recordings").glob("*.wav"))


async def heard(engines: LoadedEngines, paths: list[Path], lead_in_s: float = 0.0) -> list[str]:
    texts = [""] * len(paths)

    async def one(n: int, samples: Samples) -> None:
        texts[n] = (await engines.recognizer.recognize(samples)).text

    async with anyio.create_task_group() as tasks:
        for n, path in enumerate(paths):
            quiet = np.zeros(int(lead_in_s * INPUT_RATE_HZ), np.int16)
            tasks.start_soon(one, n, np.concatenate([quiet, read_wav(path, INPUT_RATE_HZ), quiet]))
    return texts


@pytest.mark.parametrize("silence_around_s", [0.0, 0.3])
async def test_ten_recordings_of_human_speech(real_engines: LoadedEngines, silence_around_s: float) -> None:
    assert len(RECORDINGS) == 10
    texts = await heard(real_engines, RECORDINGS, silence_around_s)
    pairs = list(zip([path.with_suffix(".txt").read_text() for path in RECORDINGS], texts, strict=True))
    assert word_error_rate(pairs) < 0.15, pairs


async def test_short_utterances_are_not_repeated(real_engines: LoadedEngines) -> None:
    """In a window of 10 s they came out as "10 of clubs 10 of clubs 10 of"; the silence around decides."""
    short = [path for path in RECORDINGS if path.stem in ("cards-001", "cards-004")]
    for silence_s in (0.1, 0.2, 0.3, 0.5):
        for text in await heard(real_engines, short, silence_s):
            assert len(text.split()) <= 3, text


async def test_silence_and_noise_are_no_words(real_engines: LoadedEngines, white_noise: Samples) -> None:
    for samples in (np.zeros(2 * INPUT_RATE_HZ, np.int16), white_noise):
        result = await real_engines.recognizer.recognize(samples)
        assert result.text == ""
        assert result.no_speech_ratio > 0.6


async def test_the_borders_of_length(real_engines: LoadedEngines) -> None:
    recognizer = real_engines.recognizer
    assert (await recognizer.recognize(np.zeros(0, np.int16))).text == ""
    assert (await recognizer.recognize(np.zeros(INPUT_RATE_HZ // 10 - 1, np.int16))).no_speech_ratio == 1.0
    assert (await recognizer.recognize(np.zeros(INPUT_RATE_HZ // 10, np.int16))).text == ""
    assert (await recognizer.recognize(np.zeros(30 * INPUT_RATE_HZ, np.int16))).text == ""
    with pytest.raises(ValueError, match="at most 30 s"):
        await recognizer.recognize(np.zeros(30 * INPUT_RATE_HZ + 1, np.int16))
    with pytest.raises(ValueError, match="one dimension"):
        await recognizer.recognize(np.zeros((2, 16_000), np.int16))


async def test_nobody_waits_for_the_words_so_the_decoder_is_spared(
    real_engines: LoadedEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    recognizer = real_engines.recognizer
    assert isinstance(recognizer, WhisperRecognizer)
    encoded, decoded, may_go_on = threading.Event(), threading.Event(), threading.Event()
    encode, decode = recognizer._encode, recognizer._decode

    def slow_encode(samples: Samples, window_s: float) -> object:
        encoded.set()
        may_go_on.wait(30)
        return encode(samples, window_s)

    def told_decode(encoded: object, most_tokens: int) -> object:
        decoded.set()
        return decode(encoded, most_tokens)

    monkeypatch.setattr(recognizer, "_encode", slow_encode)
    monkeypatch.setattr(recognizer, "_decode", told_decode)
    samples = read_wav(RECORDINGS[0], INPUT_RATE_HZ)
    async with anyio.create_task_group() as group:
        group.start_soon(recognizer.recognize, samples)
        await anyio.to_thread.run_sync(encoded.wait, 30)
        group.cancel_scope.cancel()
    may_go_on.set()
    monkeypatch.setattr(recognizer, "_encode", encode)
    assert recognizer.transcribe(samples, lambda: True).text == ""  # in this thread, behind the one that goes on
    assert not decoded.is_set()
    assert (await recognizer.recognize(samples)).text
    assert decoded.is_set()
