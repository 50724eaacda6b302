"""The caller's side of the audio: resampling, voice activity, pauses and ends of turns, and the utterance's samples."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import soxr

from runtime.conversation.audio_marks import AudioMarks
from runtime.conversation.kept_audio import KeptAudio
from runtime.dialogue.checkpoint import EarState, Span
from runtime.dialogue.endpointing import PAUSE_MS, Endpointer, OnsetRule, Paused, SpeechBegan, SpokeOn, TurnEnded
from runtime.dialogue.session_settings import ServerVad, SessionSettings
from runtime.engines.errors import EngineBusy
from runtime.engines.ports import INPUT_RATE_HZ, VAD_FRAME_SAMPLES, Samples, VoiceActivityDetector
from runtime.primitives.clock import NS_PER_MS, Clock

__all__ = ["Ear", "GoesOn", "HeardEvent", "Onset", "Pause", "Utterance"]

_FRAME_MS: Final = 1000 * VAD_FRAME_SAMPLES / INPUT_RATE_HZ
_TAIL_FRAMES: Final = round(PAUSE_MS / _FRAME_MS)
"""Silence kept behind the last voiced frame: enough for a recogniser to see the word's end, and no more than there is when it
is first asked, so that the words of a pause are the words of the turn if it ends there."""
_LONGEST_FRAMES: Final = int(120_000 / _FRAME_MS)
"""Two minutes: an utterance that goes on longer is taken as it is."""
_ONSET_FRAMES: Final = round(1_000 / _FRAME_MS)
"""Kept besides the padding, for an onset that is not yet long enough to count."""
_NO_VAD: Final = ServerVad()


@dataclass(frozen=True, slots=True)
class Onset:
    """The caller began to speak: media time of the onset, padding included, and when its first voiced frame arrived."""

    media_time_ms: int
    began_ns: int
    frame: int


@dataclass(frozen=True, slots=True)
class Utterance:
    """A turn's audio at `INPUT_RATE_HZ`. `voiced_until_ns`: when its last voiced sample arrived, on the process's clock; `spans`:
    the frames that it is made of."""

    samples: Samples
    media_time_ms: int
    voiced_until_ms: int
    voiced_until_ns: int
    spans: tuple[Span, ...] = ()

    @property
    def audio_ms(self) -> int:
        return len(self.samples) * 1000 // INPUT_RATE_HZ


@dataclass(frozen=True, slots=True)
class Pause:
    """The caller has paused; the utterance as it would be if the turn ended here."""

    utterance: Utterance


@dataclass(frozen=True, slots=True)
class GoesOn:
    """The caller goes on after a pause, within the same turn."""


HeardEvent: TypeAlias = Onset | Pause | GoesOn | Utterance


class Ear:
    """Turns appended audio into onsets, pauses and utterances. One task feeds it; calls do not overlap.

    Attributes:
        endpointer: what decides where speech begins and ends.
        marks: which event holds which frame.
    """

    def __init__(self, vad: VoiceActivityDetector, settings: SessionSettings, clock: Clock) -> None:
        self._stream = vad.open_stream()
        self._clock = clock
        self._vad: ServerVad | None = None
        self.endpointer = Endpointer(_NO_VAD, _FRAME_MS)
        self._frames: deque[Samples] = deque()
        self._arrivals_ns: deque[int] = deque(maxlen=_ONSET_FRAMES)
        self._rest = np.zeros(0, np.int16)
        self._frame = -1
        self._belief = 0.0
        self._voiced_until_ns = 0
        self._earlier: Utterance | None = None
        self.marks = AudioMarks()
        self._taken = 0.0
        self._rate_hz = 0
        self.configure(settings)

    def configure(self, settings: SessionSettings) -> None:
        if self._vad is not None and settings.turn_detection is None:
            self.endpointer.forget()  # what is being said is audio to commit, and no turn that could end by itself
        self._vad = settings.turn_detection
        self.endpointer.configure(self._vad or _NO_VAD)
        self._prefix_frames = round((self._vad or _NO_VAD).prefix_padding_ms / _FRAME_MS)
        rate_hz = settings.input_format.sample_rate_hz
        if rate_hz != self._rate_hz:
            self._rate_hz = rate_hz
            self._resampler = soxr.ResampleStream(rate_hz, INPUT_RATE_HZ, 1, dtype="int16", quality="MQ")

    @property
    def is_hearing_speech(self) -> bool:
        return self.endpointer.is_speech

    @property
    def media_time_ms(self) -> int:
        """How much of the caller's audio was heard."""
        return int((self._frame + 1) * _FRAME_MS)

    def feed(self, pcm: bytes, ordinal: int = 0) -> list[Samples]:
        """Takes PCM16 at the input format's rate, from the caller's event with this ordinal; answers the whole frames that it
        completes, for `hear`."""
        # Where the event lies in time: what the resampler has not given out yet counts as heard, since it is heard again.
        self.marks.note(ordinal, int(self._taken))
        samples = np.frombuffer(pcm, dtype="<i2")
        self._taken += len(samples) * INPUT_RATE_HZ / self._rate_hz
        if self._rate_hz != INPUT_RATE_HZ:
            samples = self._resampler.resample_chunk(samples)
        joined = np.concatenate((self._rest, samples))
        whole = len(joined) - len(joined) % VAD_FRAME_SAMPLES
        self._rest = joined[whole:]
        return [joined[start : start + VAD_FRAME_SAMPLES] for start in range(0, whole, VAD_FRAME_SAMPLES)]

    def take_fed(self) -> tuple[AudioMarks, Samples]:
        """What `feed` has left of audio that is heard again: its marks, and what is no whole frame. Before `restore`."""
        marks, rest = self.marks, self._rest
        self.marks, self._rest = AudioMarks(), rest[:0]
        return marks, rest

    def move(self, samples: int) -> None:
        """What was fed so far lies so much later in the session."""
        self._taken += samples

    async def hear(self, frame: Samples, rule: OnsetRule = OnsetRule.SURE) -> HeardEvent | None:
        """Takes the next frame. `rule`: what counts as a beginning of speech."""
        self._frame += 1
        self._frames.append(frame)
        self._arrivals_ns.append(self._clock.now_ns())
        if self._vad is None:
            if len(self._frames) > _LONGEST_FRAMES:
                self._frames.popleft()
            self.endpointer.pass_over()
            return None
        with suppress(EngineBusy):  # then the last belief holds for one more frame: better than a call that ends
            self._belief = await self._stream.speech_ratio(frame)
        endpoint = self.endpointer.hear(self._belief, rule)
        if self.endpointer.last_voiced_frame == self._frame:
            self._voiced_until_ns = self._clock.now_ns()
        match endpoint:
            case SpeechBegan(onset_frame):
                return self._began(onset_frame)
            case Paused(last_voiced):
                return Pause(self._utterance(TurnEnded(last_voiced, self._frame)))
            case SpokeOn():
                return GoesOn()
            case TurnEnded():
                return self._take(endpoint)
            case None:
                if self.endpointer.is_speech and len(self._frames) + self._earlier_frames > _LONGEST_FRAMES:
                    return self.commit()
                if not self.endpointer.is_speech:
                    self._forget_before(self._prefix_frames + _ONSET_FRAMES)
        return None

    def commit(self, least_samples: int = 1) -> Utterance | None:
        """The turn is over now. None where nothing was said (or, without turn detection, nothing was appended), or less than
        `least_samples`: then it goes on."""
        if self._vad is None:
            if len(self._frames) * VAD_FRAME_SAMPLES < least_samples:
                return None
            self._voiced_until_ns = self._clock.now_ns()
            return self._take(TurnEnded(self._frame, self._frame))
        if not self.endpointer.is_speech or len(self.paused_utterance().samples) < least_samples:
            return None
        ended = self.endpointer.finish()
        return None if ended is None else self._take(ended)

    def clear(self) -> None:
        """Forgets what was appended and not committed."""
        self._frames.clear()
        self._taken -= len(self._rest)
        self._rest = self._rest[:0]
        self._earlier = None
        self.endpointer.forget()

    def dismiss(self) -> None:
        """What is being said is no turn: it is forgotten, and so is the silence around it."""
        self._frames.clear()
        self._earlier = None
        self.endpointer.forget()

    def take_back(self, utterance: Utterance, onset_frame: int) -> None:
        """The caller went on at `onset_frame`: this audio belongs to the utterance that is being heard now."""
        self._earlier = utterance
        self.endpointer.was_cut_off(onset_frame)

    @property
    def _earlier_frames(self) -> int:
        return 0 if self._earlier is None else len(self._earlier.samples) // VAD_FRAME_SAMPLES

    def _began(self, onset_frame: int) -> Onset:
        back = self._frame - onset_frame + 1
        self._forget_before(back + self._prefix_frames)
        began_ns = self._arrivals_ns[-min(back, len(self._arrivals_ns))]
        return Onset(max(0, int((self._frame + 1 - len(self._frames)) * _FRAME_MS)), began_ns, onset_frame)

    def _take(self, ended: TurnEnded) -> Utterance:
        utterance = self._utterance(ended)
        self._frames.clear()
        self._earlier = None
        return utterance

    def _utterance(self, ended: TurnEnded) -> Utterance:
        surplus = max(0, ended.last_frame - ended.last_voiced_frame - _TAIL_FRAMES)
        frames = list(self._frames)[: len(self._frames) - surplus]
        pieces = ([self._earlier.samples] if self._earlier is not None else []) + frames
        first = self._first_frame
        return Utterance(
            samples=np.concatenate(pieces) if pieces else np.zeros(0, np.int16),
            media_time_ms=int((ended.last_frame + 1) * _FRAME_MS),
            voiced_until_ms=int((ended.last_voiced_frame + 1) * _FRAME_MS),
            voiced_until_ns=self._voiced_until_ns,
            spans=(*(self._earlier.spans if self._earlier is not None else ()), (first, first + len(frames))),
        )

    @property
    def _first_frame(self) -> int:
        return self._frame + 1 - len(self._frames)

    def paused_utterance(self) -> Utterance:
        """What `Pause` told last, or would: the utterance as it would be if the turn ended here."""
        return self._utterance(TurnEnded(self.endpointer.last_voiced_frame, self._frame))

    @property
    def state(self) -> EarState:
        """What `restore` goes on from, with the same audio."""
        return EarState(
            first_frame=self._first_frame,
            frame=self._frame,
            rest_samples=len(self._rest),
            belief=self._belief,
            voiced_age_ms=(self._clock.now_ns() - self._voiced_until_ns) // NS_PER_MS,
            earlier=self._earlier.spans if self._earlier is not None else (),
            endpointer=self.endpointer.state,
        )

    async def restore(self, state: EarState, audio: KeptAudio, marks: AudioMarks) -> None:
        """Goes on as if it had heard what another ear has; the detector hears the last second again, for its running state."""
        self._frame, self._belief = state.frame, state.belief
        self._voiced_until_ns = self._clock.now_ns() - state.voiced_age_ms * NS_PER_MS
        self._frames.extend(audio.frame(number) for number in range(state.first_frame, state.frame + 1))
        self._arrivals_ns.extend(self._clock.now_ns() for _ in self._frames)
        self._rest = audio.rest(state.frame + 1, state.rest_samples)
        self.endpointer.restore(state.endpointer)
        self.marks = marks
        if state.earlier:
            self._earlier = Utterance(audio.samples(state.earlier), 0, 0, 0, state.earlier)
        if self._vad is not None:
            for frame in list(self._frames)[-_ONSET_FRAMES:]:
                with suppress(EngineBusy):
                    await self._stream.speech_ratio(frame)

    def _forget_before(self, keep: int) -> None:
        while len(self._frames) > keep:
            self._frames.popleft()
