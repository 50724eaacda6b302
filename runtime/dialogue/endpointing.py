"""When speech begins and when a turn ends, from a stream of speech beliefs. Counts media time only, so replay decides alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from runtime.dialogue.session_settings import ServerVad

__all__ = ["Endpointer", "SpeechBegan", "TurnEnded"]


@dataclass(frozen=True, slots=True)
class SpeechBegan:
    """`onset_frame`: index of the first voiced frame of this speech."""

    onset_frame: int


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """`last_voiced_frame` and `last_frame` (silence included) are indexes of frames."""

    last_voiced_frame: int
    last_frame: int


Endpoint: TypeAlias = SpeechBegan | TurnEnded


class Endpointer:
    """Hysteresis over voiced frames.

    Speech begins after `onset_ms` of voiced frames in a row (a short dip below the threshold, down to `threshold - 0.15`, does
    not break the row); the turn ends after the settings' silence. Frames are `frame_ms` long and come in order.
    """

    def __init__(self, vad: ServerVad, frame_ms: float) -> None:
        self._frame_ms = frame_ms
        self._frame = -1
        self._row = 0
        self._is_speech = False
        self._last_voiced = -1
        self.configure(vad)

    def configure(self, vad: ServerVad) -> None:
        self._threshold = vad.threshold
        self._silence_frames = max(1, round(vad.silence_duration_ms / self._frame_ms))

    @property
    def is_speech(self) -> bool:
        return self._is_speech

    @property
    def last_voiced_frame(self) -> int:
        return self._last_voiced

    def hear(self, speech_ratio: float, onset_ms: float) -> Endpoint | None:
        """Takes the belief for the next frame; `onset_ms` may differ from frame to frame (longer while the agent speaks)."""
        self._frame += 1
        holds = self._threshold - 0.15 if self._row or self._is_speech else self._threshold
        if speech_ratio >= holds:
            self._row += 1
            self._last_voiced = self._frame
        elif self._is_speech:
            self._row = 0
        else:
            self._row = 0
            return None
        if not self._is_speech:
            if self._row * self._frame_ms >= onset_ms:
                self._is_speech = True
                return SpeechBegan(self._frame - self._row + 1)
            return None
        if self._frame - self._last_voiced >= self._silence_frames:
            return self._end()
        return None

    def finish(self) -> TurnEnded | None:
        """The caller says the turn is over: ends open speech now."""
        return self._end() if self._is_speech else None

    def forget(self) -> None:
        """Open speech is dropped without an end."""
        self._is_speech = False
        self._row = 0

    def _end(self) -> TurnEnded:
        self._is_speech = False
        self._row = 0
        return TurnEnded(self._last_voiced, self._frame)
