"""The engines without models do what their docstrings say."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.engines.load import EngineKind, EngineSettings, load_engines
from runtime.engines.ports import INPUT_RATE_HZ, VAD_FRAME_SAMPLES, Engines
from runtime.engines.synthetic import EnergyVad, SettableRecognizer, ToneSynthesizer

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(("level", "ratio"), [(0, 0.0), (499, 0.0), (500, 1.0), (-500, 1.0), (-32768, 1.0)])
async def test_loud_frames_are_speech(level: int, ratio: float) -> None:
    stream = EnergyVad().open_stream()
    assert await stream.speech_ratio(np.full(VAD_FRAME_SAMPLES, level, np.int16)) == ratio


async def test_a_frame_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="512"):
        await EnergyVad().open_stream().speech_ratio(np.zeros(320, np.int16))


async def test_the_recogniser_hears_what_it_is_told() -> None:
    recognizer = SettableRecognizer()
    assert (await recognizer.recognize(np.zeros(3 * INPUT_RATE_HZ, np.int16))).text == "3 seconds of speech"
    recognizer.answer = "hello"
    assert (await recognizer.recognize(np.zeros(1, np.int16))).text == "hello"
    recognizer.answer = ""
    assert (await recognizer.recognize(np.zeros(1, np.int16))).no_speech_ratio == 1.0
    with pytest.raises(ValueError, match="at most 480000"):
        await recognizer.recognize(np.zeros(30 * INPUT_RATE_HZ + 1, np.int16))


async def test_a_tone_lasts_sixty_milliseconds_a_character() -> None:
    synthesizer = ToneSynthesizer(16_000)
    tone = await synthesizer.synthesize("hello")
    assert tone.dtype == np.dtype(np.int16)
    assert tone.size == 16_000 * 300 // 1000
    assert np.array_equal(tone, await synthesizer.synthesize(" hello "))
    assert np.sqrt(np.mean(np.square(tone, dtype=float))) > 500
    assert (await synthesizer.synthesize("  ")).size == 0


def test_the_set_is_a_set_of_engines_without_models() -> None:
    engines: Engines = load_engines(EngineSettings(kind=EngineKind.SYNTHETIC))
    assert engines.waiting() == 0
    assert engines.synthesizer.sample_rate_hz == 24_000
