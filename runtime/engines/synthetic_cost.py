"""Synthetic engines that cost what they are told to: the CPU of real ones, without the models, for load tests.

The results are those of `synthetic`; the CPU is really burned, in native threads that release the interpreter lock.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from runtime.engines.loaded import LoadedEngines
from runtime.engines.ports import (
    INPUT_RATE_HZ,
    VAD_FRAME_SAMPLES,
    Engines,
    RecognizedSpeech,
    Samples,
    SpeechRecognizer,
    SpeechSynthesizer,
    Urgency,
    VoiceActivityDetector,
    VoiceActivityStream,
)
from runtime.engines.synthetic_burner import CpuBurner
from runtime.engines.worker import Priority, WorkerPool, transcript_priority
from runtime.primitives.rng import Rng, SeededRng

__all__ = ["Jitter", "SyntheticCost", "costly_engines"]

_FRAME_S: Final = VAD_FRAME_SAMPLES / INPUT_RATE_HZ
_FRAMES_A_JOB: Final = 8
"""A job for every frame would cost more in hand-over than in work; a real detector saves the same by gathering sessions."""
_LISTENING_LIMIT: Final = 4_096


@dataclass(frozen=True, slots=True)
class SyntheticCost:
    """What sessions cost, in CPU milliseconds. All 0: nothing is burned and no thread is made.

    Attributes:
        speech_ms_per_s: for a second of an utterance, when it is recognised.
        silence_ms_per_s: for a second of the caller's audio, spoken or not: the detector hears all of it.
        reply_ms_per_s: for a second of the agent's speech, when it is made.
        startup_ms: for a session, with its first frame of audio.
        jitter: each cost is drawn evenly from 1 - jitter to 1 + jitter times its value; 0 to 1.
        seed: of the jitter. The same seed gives every session, by order of start, the same draws.
    """

    speech_ms_per_s: float = 0.0
    silence_ms_per_s: float = 0.0
    reply_ms_per_s: float = 0.0
    startup_ms: float = 0.0
    jitter: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) >= 0:
                raise ValueError(f"{field.name} is {getattr(self, field.name)}; allowed: 0 and up")
        if self.jitter > 1:
            raise ValueError(f"jitter is {self.jitter}; allowed: 0 to 1")

    @property
    def is_free(self) -> bool:
        return not (self.speech_ms_per_s or self.silence_ms_per_s or self.reply_ms_per_s or self.startup_ms)


class Jitter:
    """Draws costs around their means."""

    def __init__(self, ratio: float, rng: Rng) -> None:
        self._ratio = ratio
        self._rng = rng

    def of(self, mean_ms: float) -> float:
        """From (1 - ratio) to (1 + ratio) times the mean, evenly; one draw."""
        return mean_ms * (1.0 + self._ratio * (2.0 * self._rng.random() - 1.0))


class _CostlyStream:
    """Pays for start-up with the first frame and for listening every eighth."""

    def __init__(self, heard: VoiceActivityStream, vad: _CostlyVad, jitter: Jitter) -> None:
        self._heard = heard
        self._vad = vad
        self._jitter = jitter
        self._frames = 0
        self._owed_ms = jitter.of(vad.cost.startup_ms)
        self._is_started = False

    async def speech_ratio(self, frame: Samples) -> float:
        """As the port; waits for its CPU where it is due. Raises EngineBusy where too much waits already, EngineClosed."""
        ratio = await self._heard.speech_ratio(frame)
        self._frames += 1
        if not self._is_started or self._frames >= _FRAMES_A_JOB:
            owed_ms = self._owed_ms + self._jitter.of(self._vad.cost.silence_ms_per_s * self._frames * _FRAME_S)
            self._is_started, self._frames, self._owed_ms = True, 0, 0.0
            await self._vad.pay(owed_ms)
        return ratio


class _CostlyVad:
    """Has a thread of its own: listening must not stand behind recognitions."""

    def __init__(self, inner: VoiceActivityDetector, cost: SyntheticCost, burner: CpuBurner) -> None:
        self.cost = cost
        self._inner = inner
        self._burner = burner
        self._pool = WorkerPool(1, _LISTENING_LIMIT, "synthetic-listening")
        self._streams = 0
        self.close = self._pool.close

    def open_stream(self) -> VoiceActivityStream:
        self._streams += 1
        rng = SeededRng(self.cost.seed * 1_000_003 + self._streams)
        return _CostlyStream(self._inner.open_stream(), self, Jitter(self.cost.jitter, rng))

    async def pay(self, owed_ms: float) -> None:
        if owed_ms > 0:
            await self._pool.run(Priority.FIRST_SPEECH, lambda: self._burner.burn(owed_ms))


class _CostlyRecognizer:
    def __init__(self, inner: SpeechRecognizer, cost: SyntheticCost, pool: WorkerPool, burner: CpuBurner, jitter: Jitter) -> None:
        self._inner = inner
        self._ms_per_s = cost.speech_ms_per_s
        self._pool = pool
        self._burner = burner
        self._jitter = jitter

    async def recognize(self, samples: Samples, urgency: Urgency | None = None) -> RecognizedSpeech:
        """As the port. Raises EngineBusy where too much waits already, EngineClosed."""
        speech = await self._inner.recognize(samples, urgency)
        owed_ms = self._jitter.of(self._ms_per_s * samples.size / INPUT_RATE_HZ)
        if owed_ms > 0:
            await self._pool.run(transcript_priority(urgency), lambda: self._burner.burn(owed_ms))
        return speech


class _CostlySynthesizer:
    def __init__(
        self, inner: SpeechSynthesizer, cost: SyntheticCost, pool: WorkerPool, burner: CpuBurner, jitter: Jitter
    ) -> None:
        self._inner = inner
        self._ms_per_s = cost.reply_ms_per_s
        self._pool = pool
        self._burner = burner
        self._jitter = jitter

    @property
    def sample_rate_hz(self) -> int:
        return self._inner.sample_rate_hz

    async def synthesize(self, text: str, *, is_first: bool = False) -> Samples:
        """As the port. Raises EngineBusy where too much waits already, EngineClosed."""
        samples = await self._inner.synthesize(text, is_first=is_first)
        owed_ms = self._jitter.of(self._ms_per_s * samples.size / self.sample_rate_hz)
        if owed_ms > 0:
            priority = Priority.FIRST_SPEECH if is_first else Priority.SPEECH
            await self._pool.run(priority, lambda: self._burner.burn(owed_ms))
        return samples


def costly_engines(inner: Engines, cost: SyntheticCost, worker_threads: int, queue_limit: int) -> LoadedEngines:
    """`inner` with `cost` on top; starts threads, so it needs closing."""
    burner = CpuBurner()
    vad = _CostlyVad(inner.vad, cost, burner)
    pool = WorkerPool(worker_threads, queue_limit, "synthetic-engines")
    # Streams count from 1, so these two seeds are nobody else's while there are fewer than a million sessions.
    hearing = Jitter(cost.jitter, SeededRng(cost.seed * 1_000_003 - 1))
    speaking = Jitter(cost.jitter, SeededRng(cost.seed * 1_000_003))
    return LoadedEngines(
        vad=vad,
        recognizer=_CostlyRecognizer(inner.recognizer, cost, pool, burner, hearing),
        synthesizer=_CostlySynthesizer(inner.synthesizer, cost, pool, burner, speaking),
        waiting=pool.waiting,
        closers=(pool.close, vad.close),
    )
