"""The synthesiser, judged by the recogniser; its borders; and that it needs no network."""

from __future__ import annotations

import socket

import numpy as np
import pytest
import soxr

from perf.demo.scoring import word_error_rate
from runtime.engines.hibari import HibariSynthesizer
from runtime.engines.loaded import LoadedEngines
from runtime.engines.ports import INPUT_RATE_HZ
from runtime.engines.worker import WorkerPool

pytestmark = [pytest.mark.models, pytest.mark.anyio]

SENTENCES = [
    "I have taken your message.",
    "Is there anything else I can do for you?",
    "On Saturday we are open from nine to five.",
    "Your table for four tomorrow at 7:30 in the evening is booked.",
    "Under which name shall I book the table?",
    "Mr. Smith called about fish & chips, 55% off.",
    "I am sorry, I did not understand that. Could you say it again, please?",
]


async def test_the_recogniser_understands_it(real_engines: LoadedEngines) -> None:
    pairs = []
    for sentence in SENTENCES:
        spoken = await real_engines.synthesizer.synthesize(sentence, is_first=True)
        assert spoken.dtype == np.dtype(np.int16)
        assert 0.02 < np.abs(spoken).max() / 32768 <= 1.0
        samples = soxr.resample(spoken, real_engines.synthesizer.sample_rate_hz, INPUT_RATE_HZ)
        pairs.append((sentence, (await real_engines.recognizer.recognize(samples)).text))
    assert word_error_rate(pairs) < 0.20, pairs


async def test_the_same_text_gives_the_same_samples(real_engines: LoadedEngines) -> None:
    one = await real_engines.synthesizer.synthesize("Is there anything else?", is_first=False)
    assert np.array_equal(one, await real_engines.synthesizer.synthesize("Is there anything else?", is_first=True))


@pytest.mark.parametrize("text", ["", " \n", "...", "—", "🙂", "** **"])
async def test_nothing_to_pronounce_is_silence(real_engines: LoadedEngines, text: str) -> None:
    assert (await real_engines.synthesizer.synthesize(text, is_first=False)).size == 0


async def test_odd_texts_are_spoken_and_too_long_ones_refused(real_engines: LoadedEngines) -> None:
    for text in ("Zorblaxian qwrtzp", "你好 hello", "café naïve", "7", "http://example.com/a?b=c", "a " * 499):
        await real_engines.synthesizer.synthesize(text, is_first=False)
    with pytest.raises(ValueError, match="at most 1000"):
        await real_engines.synthesizer.synthesize("a" * 1001, is_first=False)


def test_it_loads_and_speaks_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a model engine reached for the network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    pool = WorkerPool(1, 1)
    assert HibariSynthesizer(pool).speak("Hello.").size > 0
    pool.close()
