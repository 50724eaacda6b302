"""What the conversation needs of speech engines. Another engine is one class that fits one of these ports.

One engine object serves all sessions of a process. Audio inside is 16-bit signed mono at 16 kHz unless an attribute says
otherwise. No method blocks the event loop: inference runs in native threads that release the interpreter lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "INPUT_RATE_HZ",
    "VAD_FRAME_SAMPLES",
    "EndOfTurn",
    "Engines",
    "RecognizedSpeech",
    "Samples",
    "SpeechRecognizer",
    "SpeechSynthesizer",
    "Urgency",
    "VoiceActivityDetector",
    "VoiceActivityStream",
]

Samples: TypeAlias = NDArray[np.int16]
"""One-dimensional signed 16-bit mono samples."""

INPUT_RATE_HZ: Final = 16_000
"""What recognisers and voice activity detectors take."""
VAD_FRAME_SAMPLES: Final = 512
"""32 ms at `INPUT_RATE_HZ`."""


@dataclass(frozen=True, slots=True)
class RecognizedSpeech:
    """`text` is trimmed, with the recogniser's own case and punctuation; empty where no words were found."""

    text: str
    no_speech_ratio: float
    """The recogniser's own belief that there was no speech, 0-1."""


@dataclass(slots=True)
class Urgency:
    """How much hurry there is with a transcript. May be changed while it waits.

    Attributes:
        is_awaited: a caller waits for these words in silence; else they are wanted ahead of need, while nobody waits.
    """

    is_awaited: bool = True


class VoiceActivityStream(Protocol):
    """The running state of one session's detector."""

    async def speech_ratio(self, frame: Samples) -> float:
        """Belief, 0-1, that this frame of `VAD_FRAME_SAMPLES` samples holds speech. Frames come in order, one at a time."""
        ...


class VoiceActivityDetector(Protocol):
    def open_stream(self) -> VoiceActivityStream: ...


class SpeechRecognizer(Protocol):
    async def recognize(self, samples: Samples, urgency: Urgency | None = None) -> RecognizedSpeech:
        """Transcribes one utterance of at most 30 s at `INPUT_RATE_HZ`. Raises ValueError above that. None: it is awaited."""
        ...


class SpeechSynthesizer(Protocol):
    @property
    def sample_rate_hz(self) -> int: ...

    async def synthesize(self, text: str, *, is_first: bool = False) -> Samples:
        """Speaks one sentence or clause (at most 1,000 characters). Empty for text without anything to pronounce.

        `is_first`: the caller waits in silence for it, so it goes before the rest of replies that already play.
        """
        ...


class EndOfTurn(Protocol):
    async def finished_ratio(self, samples: Samples) -> float:
        """Belief, 0-1, that whoever said this (at `INPUT_RATE_HZ`, up to a pause) has finished. Raises EngineBusy."""
        ...


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of one process, loaded once and warm. `end_of_turn` None: silence and words alone decide."""

    vad: VoiceActivityDetector
    recognizer: SpeechRecognizer
    synthesizer: SpeechSynthesizer

    waiting: WaitingJobs
    end_of_turn: EndOfTurn | None = None


class WaitingJobs(Protocol):
    """Says how many engine jobs wait for a worker (the snapshot's queue length)."""

    def __call__(self) -> int: ...
