"""Which of the caller's events holds the beginning of which frame: how audio is asked for again. Pure."""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["AudioMarks"]

_STEP: Final = 3_200
"""Samples between two marks: a fifth of a second; a mark for each event would cost more than the audio that it saves."""
_MOST: Final = 1_000
"""Over three minutes: longer than any utterance that is kept."""


class AudioMarks:
    """Positions are samples at 16 kHz since the session's first; an event's position is that of its first sample."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: deque[tuple[int, int]] = deque(maxlen=_MOST)

    def __len__(self) -> int:
        return len(self._marks)

    def note(self, ordinal: int, position: int) -> None:
        """The event with this ordinal begins there. Calls come in order."""
        if not self._marks or position >= self._marks[-1][1] + _STEP:
            self._marks.append((ordinal, position))

    def move(self, samples: int) -> None:
        """All positions lie so much later: they were counted from another beginning."""
        self._marks = deque(((ordinal, begins + samples) for ordinal, begins in self._marks), maxlen=_MOST)

    def forget_before(self, position: int) -> None:
        """Nothing that begins before `position` will be asked for again."""
        marks = self._marks
        while len(marks) > 1 and marks[1][1] <= position:
            marks.popleft()

    def find(self, position: int) -> tuple[int, int] | None:
        """The last marked event that begins at or before `position`, and how many samples of it and those after lie before that.

        None where nothing was noted; the oldest mark where all lie behind.
        """
        for ordinal, begins in reversed(self._marks):  # what is asked for is seldom old
            if begins <= position:
                return ordinal, position - begins
        return (self._marks[0][0], 0) if self._marks else None
