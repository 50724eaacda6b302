"""Engines without models, for tests: deterministic, and quick enough that a test of the pipeline tests the pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio.lowlevel
import numpy as np

from runtime.engines.loaded import LoadedEngines
from runtime.engines.ports import INPUT_RATE_HZ, VAD_FRAME_SAMPLES, RecognizedSpeech, Samples, Urgency, VoiceActivityStream

__all__ = [
    "EnergyVad",
    "SettableRecognizer",
    "ToneSynthesizer",
    "spoken_seconds",
    "synthetic_engines",
]

_MAX_UTTERANCE_SAMPLES: Final = 30 * INPUT_RATE_HZ
_TONE_HZ: Final = 440.0
_TONE_PEAK: Final = 8_000


class EnergyVad:
    """Speech is whatever has a root mean square of at least `threshold` (in 16-bit steps). Keeps no state between frames."""

    def __init__(self, threshold: float = 500.0) -> None:
        self._threshold = threshold

    def open_stream(self) -> VoiceActivityStream:
        return self

    async def speech_ratio(self, frame: Samples) -> float:
        """1.0 or 0.0. Raises ValueError for a frame of another length than `VAD_FRAME_SAMPLES`."""
        if frame.shape != (VAD_FRAME_SAMPLES,):
            raise ValueError(f"a frame has shape {frame.shape}; allowed: ({VAD_FRAME_SAMPLES},)")
        await anyio.lowlevel.checkpoint()
        rms = float(np.sqrt(np.mean(np.square(frame, dtype=np.float64))))
        return 1.0 if rms >= self._threshold else 0.0


def spoken_seconds(samples: Samples) -> str:
    """What `SettableRecognizer` hears unless told otherwise, for example "3 seconds of speech" (rounded to whole seconds)."""
    return f"{round(samples.size / INPUT_RATE_HZ)} seconds of speech"


class SettableRecognizer:
    """Hears in every utterance what it was told: a text, or a function of the samples. An empty text counts as no speech.

    Attributes:
        answer: may be set at any time; the next utterance uses it.
    """

    def __init__(self, answer: str | Callable[[Samples], str] = spoken_seconds) -> None:
        self.answer = answer

    async def recognize(self, samples: Samples, urgency: Urgency | None = None) -> RecognizedSpeech:  # noqa: ARG002
        """As the port; raises ValueError above 30 s. Nothing waits, so `urgency` has no meaning here."""
        if samples.size > _MAX_UTTERANCE_SAMPLES:
            raise ValueError(f"an utterance has {samples.size} samples; allowed: at most {_MAX_UTTERANCE_SAMPLES}")
        await anyio.lowlevel.checkpoint()
        text = self.answer if isinstance(self.answer, str) else self.answer(samples)
        return RecognizedSpeech(text=text, no_speech_ratio=0.0 if text else 1.0)


class ToneSynthesizer:
    """Says a text as a 440 Hz tone of 60 ms a character; blank text has no sound."""

    MS_PER_CHARACTER: Final = 60

    def __init__(self, sample_rate_hz: int = 24_000) -> None:
        self._sample_rate_hz = sample_rate_hz

    @property
    def sample_rate_hz(self) -> int:
        return self._sample_rate_hz

    async def synthesize(self, text: str, *, is_first: bool = False) -> Samples:  # noqa: ARG002
        """As the port. `is_first` has no meaning here: nothing waits."""
        await anyio.lowlevel.checkpoint()
        count = self._sample_rate_hz * self.MS_PER_CHARACTER * len(text.strip()) // 1_000
        angle = np.arange(count) * (2 * np.pi * _TONE_HZ / self._sample_rate_hz)
        tone: Samples = (np.sin(angle) * _TONE_PEAK).astype(np.int16)
        return tone


def synthetic_engines(
    vad: EnergyVad | None = None, recognizer: SettableRecognizer | None = None, synthesizer: ToneSynthesizer | None = None
) -> LoadedEngines:
    """A whole set; keep the parts you pass if the test wants to set them later. Needs no closing."""
    return LoadedEngines(
        vad=vad or EnergyVad(),
        recognizer=recognizer or SettableRecognizer(),
        synthesizer=synthesizer or ToneSynthesizer(),
        waiting=lambda: 0,
    )
