"""The caller's audio that another process has heard already, by frames."""

from __future__ import annotations

import numpy as np

from runtime.dialogue.checkpoint import Span
from runtime.engines.ports import VAD_FRAME_SAMPLES, Samples

__all__ = ["KeptAudio", "MissingAudio"]


class MissingAudio(ValueError):
    """The audio that came does not reach as far as the checkpoint says."""


class KeptAudio:
    """`samples` at 16 kHz begin at frame `base_frame`."""

    def __init__(self, base_frame: int, samples: Samples) -> None:
        self._base = base_frame
        self._samples = samples

    def frame(self, number: int) -> Samples:
        """Raises MissingAudio."""
        return self._cut(number, number + 1)

    def samples(self, spans: tuple[Span, ...]) -> Samples:
        """Raises MissingAudio."""
        pieces = [self._cut(first, end) for first, end in spans]
        return np.concatenate(pieces) if pieces else self._samples[:0]

    def rest(self, frame: int, count: int) -> Samples:
        """`count` samples from the beginning of a frame; resampling may have left some fewer or more."""
        begins = (frame - self._base) * VAD_FRAME_SAMPLES
        return self._samples[begins : begins + min(count, VAD_FRAME_SAMPLES - 1)]

    def _cut(self, first: int, end: int) -> Samples:
        begins, ends = (first - self._base) * VAD_FRAME_SAMPLES, (end - self._base) * VAD_FRAME_SAMPLES
        if begins < 0 or ends > len(self._samples) + VAD_FRAME_SAMPLES:
            raise MissingAudio(f"frames {first} to {end} are needed; there are {self._base} to {self._base + self._count}")
        cut = self._samples[begins:ends]
        # A resampler that began anew ends a few samples sooner.
        return np.pad(cut, (0, ends - begins - len(cut))) if len(cut) < ends - begins else cut

    @property
    def _count(self) -> int:
        return len(self._samples) // VAD_FRAME_SAMPLES
