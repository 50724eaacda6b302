"""When speech begins, pauses, goes on and ends, from a stream of speech beliefs. Counts media time only: replay decides alike."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from runtime.dialogue.checkpoint import EndpointerState
from runtime.dialogue.pauses import LearnedPauses
from runtime.dialogue.session_settings import ServerVad

__all__ = ["PAUSE_MS", "Endpoint", "Endpointer", "OnsetRule", "Paused", "SpeechBegan", "SpokeOn", "TurnEnded"]

PAUSE_MS: Final = 96.0
"""Least silence after which the words so far are worth having: a transcript that is begun then is there when the turn ends. With
224 ms, as long as most pauses between words, 20 callers were answered about 100 ms later, for as much CPU: few pauses lie
between the two, and what is asked for in vain costs the encoder alone where speech goes on soon enough."""
_BLIP_MS: Final = 64.0
"""Voice within a pause that is shorter is a click, and ends neither the pause nor the wait."""
_HYSTERESIS: Final = 0.15
_AHEAD_MS: Final = 288.0
"""Before the turn may end: time for the words to come. A caller who pauses long is not transcribed at each short pause."""
_LONGEST_FACTOR: Final = 1.6
"""Of the configured silence, whatever pauses and words say: a caller who is done waits no longer."""
_SURE_MS: Final = 96.0
"""Three frames in a row, so that a click begins no turn."""
_QUICK_FRAMES: Final = 3
_QUICK_EVIDENCE: Final = 1.8
"""Beliefs summed over the last three frames: two that are almost certain, or three of 0.6. On recorded speech that is 110 ms
after the onset (median; 95th percentile 227 ms), where three voiced frames in a row are 140 and 250 ms."""


class OnsetRule(StrEnum):
    """What counts as a beginning of speech."""

    SURE = "sure"
    """96 ms of voice in a row: a turn begins, and what begins is told."""
    QUICK = "quick"
    """The first good evidence: what follows from it can be undone."""


@dataclass(frozen=True, slots=True)
class SpeechBegan:
    """`onset_frame`: index of the first voiced frame of this speech."""

    onset_frame: int


@dataclass(frozen=True, slots=True)
class Paused:
    """`last_voiced_frame`: index of the frame after which it became quiet."""

    last_voiced_frame: int


@dataclass(frozen=True, slots=True)
class SpokeOn:
    """The same turn goes on after a `Paused`."""


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """`last_voiced_frame` and `last_frame` (silence included) are indexes of frames."""

    last_voiced_frame: int
    last_frame: int


Endpoint: TypeAlias = SpeechBegan | Paused | SpokeOn | TurnEnded


class Endpointer:
    """Hysteresis over voiced frames, and a wait that fits the caller.

    Speech begins by one of two rules; a short dip below the threshold, down to `threshold - 0.15`, is still voice. It has paused
    after `PAUSE_MS`; the turn ends after the settings' silence, which adapts to the caller's pauses where the settings allow it,
    and may be stretched or shortened for the present pause by `hint`. Frames are `frame_ms`
    long and come in order.

    Attributes:
        pauses: what was learned of this caller.
    """

    def __init__(self, vad: ServerVad, frame_ms: float, pauses: LearnedPauses | None = None) -> None:
        self.pauses = pauses or LearnedPauses()
        self._frame_ms = frame_ms
        self._frame = -1
        self._row = 0
        self._is_speech = False
        self._is_paused = False
        self._last_voiced = -1
        self._voiced = 0
        self._ended_at = -1
        self._factor = 1.0
        self._beliefs: deque[float] = deque(maxlen=_QUICK_FRAMES)
        self.configure(vad)

    def configure(self, vad: ServerVad) -> None:
        self._settings = vad

    @property
    def is_speech(self) -> bool:
        return self._is_speech

    @property
    def last_voiced_frame(self) -> int:
        return self._last_voiced

    @property
    def voiced_ms(self) -> float:
        """Voice since the present speech began, pauses not counted; 0 where there is none."""
        return self._voiced * self._frame_ms if self._is_speech else 0.0

    @property
    def state(self) -> EndpointerState:
        """What `restore` goes on from."""
        return EndpointerState(
            self._frame,
            self._row,
            self._is_speech,
            self._is_paused,
            self._last_voiced,
            self._voiced,
            self._ended_at,
            self._factor,
            tuple(self._beliefs),
            self.pauses.state,
        )

    def restore(self, state: EndpointerState) -> None:
        self._frame, self._row = state.frame, state.row
        self._is_speech, self._is_paused = state.is_speech, state.is_paused
        self._last_voiced, self._voiced, self._ended_at = state.last_voiced, state.voiced, state.ended_at
        self._factor = state.factor
        self._beliefs.extend(state.beliefs)
        self.pauses = LearnedPauses(*state.pauses)

    @property
    def is_paused(self) -> bool:
        """Whether a `Paused` was told and neither its end nor the turn's."""
        return self._is_paused

    def hint(self, factor: float) -> None:
        """The silence that ends the turn is `factor` times as long, in the present pause only. 1: no hint.

        Of several hints one that asks to wait wins, else the shortest.
        """
        if self._is_paused:
            self._factor = max(factor, self._factor) if max(factor, self._factor) > 1 else min(factor, self._factor)

    def hear(self, speech_ratio: float, rule: OnsetRule = OnsetRule.SURE) -> Endpoint | None:
        """Takes the belief for the next frame; the rule may differ from frame to frame."""
        self._frame += 1
        self._beliefs.append(speech_ratio)
        threshold = self._settings.threshold
        if speech_ratio < (threshold - _HYSTERESIS if self._row or self._is_speech else threshold):
            self._row = 0
            return self._silent() if self._is_speech else None
        self._row += 1
        if not self._is_speech:
            self._last_voiced = self._frame
            if not self._has_begun(rule):
                return None
            self._is_speech = True
            self._voiced = self._row
            return SpeechBegan(self._frame - self._row + 1)
        gap = self._frame - self._last_voiced - self._row
        if gap > 0 and self._row * self._frame_ms < _BLIP_MS:
            return None  # the next frame tells
        self._voiced += self._row if gap > 0 else 1
        self._last_voiced = self._frame
        if gap > 0:
            self.pauses.paused(gap * self._frame_ms)
        if self._is_paused:
            self._is_paused = False
            self._factor = 1.0
            return SpokeOn()
        return None

    def was_cut_off(self, onset_frame: int) -> None:
        """The last turn that ended was not over: the speech that began at `onset_frame` belongs to it."""
        if self._ended_at >= 0:
            self.pauses.was_cut_off((onset_frame - self._ended_at - 1) * self._frame_ms)

    def pass_over(self) -> None:
        """A frame came of which nobody wants to know whether it is voice."""
        self._frame += 1

    def finish(self) -> TurnEnded | None:
        """The caller says the turn is over: ends open speech now."""
        return self._end() if self._is_speech else None

    def forget(self) -> None:
        """Open speech is dropped without an end."""
        self._is_speech = self._is_paused = False
        self._factor = 1.0
        self._row = 0
        self._beliefs.clear()

    def silence_ms(self) -> float:
        """The silence that ends the turn as things stand."""
        configured_ms = self._settings.silence_duration_ms
        if not self._settings.is_adaptive:
            return configured_ms
        return min(_LONGEST_FACTOR * configured_ms, self.pauses.silence_ms(configured_ms) * self._factor)

    def _has_begun(self, rule: OnsetRule) -> bool:
        if rule is OnsetRule.QUICK and sum(self._beliefs) >= _QUICK_EVIDENCE:
            return True
        return self._row * self._frame_ms >= _SURE_MS

    def _silent(self) -> Endpoint | None:
        # Rounded as one counts frames: half a frame of silence is none.
        silent_ms = (self._frame - self._last_voiced) * self._frame_ms + self._frame_ms / 2
        if silent_ms >= self.silence_ms():
            return self._end()
        if silent_ms >= max(PAUSE_MS, self.silence_ms() - _AHEAD_MS) and not self._is_paused:
            self._is_paused = True
            return Paused(self._last_voiced)
        return None

    def _end(self) -> TurnEnded:
        self._ended_at = self._last_voiced
        self.forget()
        return TurnEnded(self._last_voiced, self._frame)
