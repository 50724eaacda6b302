"""The caller's side of the audio: resampling, voice activity, ends of turns, and the utterance's samples."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import soxr

from runtime.dialogue.endpointing import Endpointer, SpeechBegan, TurnEnded
from runtime.dialogue.session_settings import ServerVad, SessionSettings
from runtime.engines.errors import EngineBusy
from runtime.engines.ports import INPUT_RATE_HZ, VAD_FRAME_SAMPLES, Samples, VoiceActivityDetector
from runtime.primitives.clock import Clock

__all__ = ["Ear", "Onset", "Utterance"]

_FRAME_MS: Final = 1000 * VAD_FRAME_SAMPLES / INPUT_RATE_HZ
_TAIL_MS: Final = 250
"""Silence kept behind the last voiced frame: enough for a recogniser to see the word's end."""
_LONGEST_FRAMES: Final = int(120_000 / _FRAME_MS)
"""Two minutes: an utterance that goes on longer is taken as it is."""
_NO_VAD: Final = ServerVad()


@dataclass(frozen=True, slots=True)
class Onset:
    """The caller began to speak; media time of the onset, padding included."""

    media_time_ms: int


@dataclass(frozen=True, slots=True)
class Utterance:
    """A turn's audio at `INPUT_RATE_HZ`. `voiced_until_ns`: when its last voiced sample arrived, on the process's clock."""

    samples: Samples
    media_time_ms: int
    voiced_until_ms: int
    voiced_until_ns: int

    @property
    def audio_ms(self) -> int:
        return len(self.samples) * 1000 // INPUT_RATE_HZ


HeardEvent: TypeAlias = Onset | Utterance


class Ear:
    """Turns appended audio into onsets and utterances. One task feeds it; calls do not overlap."""

    def __init__(self, vad: VoiceActivityDetector, settings: SessionSettings, clock: Clock) -> None:
        self._stream = vad.open_stream()
        self._clock = clock
        self._endpointer = Endpointer(_NO_VAD, _FRAME_MS)
        self._frames: deque[Samples] = deque()
        self._rest = np.zeros(0, np.int16)
        self._frame = -1
        self._belief = 0.0
        self._voiced_until_ns = 0
        self._earlier: Samples | None = None
        self._rate_hz = 0
        self.configure(settings)

    def configure(self, settings: SessionSettings) -> None:
        self._vad = settings.turn_detection
        self._endpointer.configure(self._vad or _NO_VAD)
        self._prefix_frames = round((self._vad or _NO_VAD).prefix_padding_ms / _FRAME_MS)
        rate_hz = settings.input_format.sample_rate_hz
        if rate_hz != self._rate_hz:
            self._rate_hz = rate_hz
            self._resampler = soxr.ResampleStream(rate_hz, INPUT_RATE_HZ, 1, dtype="int16")

    @property
    def is_hearing_speech(self) -> bool:
        return self._endpointer.is_speech

    async def hear(self, pcm: bytes, onset_ms: float) -> list[HeardEvent]:
        """Takes PCM16 at the input format's rate. `onset_ms`: how much voiced audio counts as a beginning of speech."""
        samples = np.frombuffer(pcm, dtype="<i2")
        if self._rate_hz != INPUT_RATE_HZ:
            samples = self._resampler.resample_chunk(samples)
        joined = np.concatenate((self._rest, samples))
        events: list[HeardEvent] = []
        whole = len(joined) - len(joined) % VAD_FRAME_SAMPLES
        for start in range(0, whole, VAD_FRAME_SAMPLES):
            event = await self._hear_frame(joined[start : start + VAD_FRAME_SAMPLES], onset_ms)
            if event is not None:
                events.append(event)
        self._rest = joined[whole:]
        return events

    async def _hear_frame(self, frame: Samples, onset_ms: float) -> HeardEvent | None:
        self._frame += 1
        self._frames.append(frame)
        if self._vad is None:
            if len(self._frames) > _LONGEST_FRAMES:
                self._frames.popleft()
            return None
        with suppress(EngineBusy):  # then the last belief holds for one more frame: better than a call that ends
            self._belief = await self._stream.speech_ratio(frame)
        endpoint = self._endpointer.hear(self._belief, onset_ms)
        if self._endpointer.last_voiced_frame == self._frame:
            self._voiced_until_ns = self._clock.now_ns()
        match endpoint:
            case SpeechBegan(onset_frame):
                keep = self._frame - onset_frame + 1 + self._prefix_frames
                self._forget_before(keep)
                return Onset(max(0, int((self._frame + 1 - len(self._frames)) * _FRAME_MS)))
            case TurnEnded():
                return self._take(endpoint)
            case None:
                if self._endpointer.is_speech and len(self._frames) > _LONGEST_FRAMES:
                    return self.commit()
                if not self._endpointer.is_speech:
                    # Room for the padding and for an onset that is not yet long enough to count.
                    self._forget_before(self._prefix_frames + round(1000 / _FRAME_MS))
        return None

    def commit(self) -> Utterance | None:
        """The turn is over now. None where nothing was said (or, without turn detection, nothing was appended)."""
        if self._vad is None:
            if not self._frames:
                return None
            self._voiced_until_ns = self._clock.now_ns()
            return self._take(TurnEnded(self._frame, self._frame))
        ended = self._endpointer.finish()
        return None if ended is None else self._take(ended)

    def clear(self) -> None:
        """Forgets what was appended and not committed."""
        self._frames.clear()
        self._rest = self._rest[:0]
        self._earlier = None
        self._endpointer.forget()

    def take_back(self, utterance: Utterance) -> None:
        """The caller went on: this audio belongs to the utterance that is being heard now."""
        self._earlier = utterance.samples

    def _take(self, ended: TurnEnded) -> Utterance:
        silent = ended.last_frame - ended.last_voiced_frame
        surplus = max(0, silent - round(_TAIL_MS / _FRAME_MS))
        frames = list(self._frames)[: len(self._frames) - surplus]
        pieces = ([self._earlier] if self._earlier is not None else []) + frames
        self._frames.clear()
        self._earlier = None
        return Utterance(
            samples=np.concatenate(pieces) if pieces else np.zeros(0, np.int16),
            media_time_ms=int((ended.last_frame + 1) * _FRAME_MS),
            voiced_until_ms=int((ended.last_voiced_frame + 1) * _FRAME_MS),
            voiced_until_ns=self._voiced_until_ns,
        )

    def _forget_before(self, keep: int) -> None:
        while len(self._frames) > keep:
            self._frames.popleft()
