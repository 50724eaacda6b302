"""A caller's open microphone: sends a frame every 20 ms, speech while there is some, a faint hiss otherwise."""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

import anyio
import numpy as np
from numpy.typing import NDArray

from clients.realtime import RATE_HZ

__all__ = ["Microphone", "voiced_span"]

_FRAME: Final = RATE_HZ // 50
_LOUDNESS_FRAME: Final = RATE_HZ // 100
_QUIET_RATIO: Final = 0.04
_ONSET_RATIO: Final = 0.1
_QUIET_FLOOR: Final = 120.0
_HISS: Final = 6
"""Peak of the hiss, in 16-bit steps: a line is never digitally silent."""


def voiced_span(samples: NDArray[np.int16]) -> tuple[int, int]:
    """Where speech begins and ends, measured on the recording alone, so that the server cannot flatter its own latency.

    It begins with the first three 10 ms frames in a row that are louder than a tenth of the loudest (root mean square, -20 dB:
    breath before it is none), and ends one past the last sample of the last frame that is louder than 4 %.
    """
    whole = samples[: len(samples) - len(samples) % _LOUDNESS_FRAME].astype(np.float64).reshape(-1, _LOUDNESS_FRAME)
    if not len(whole):
        return 0, len(samples)
    loudness = np.sqrt((whole**2).mean(axis=1))
    loudest = float(loudness.max())
    voiced = loudness > max(_QUIET_FLOOR, _ONSET_RATIO * loudest)
    begins = np.flatnonzero(voiced[:-2] & voiced[1:-1] & voiced[2:])
    loud = np.flatnonzero(loudness > max(_QUIET_FLOOR, _QUIET_RATIO * loudest))
    if not len(begins) or not len(loud):
        return 0, len(samples)
    return int(begins[0]) * _LOUDNESS_FRAME, (int(loud[-1]) + 1) * _LOUDNESS_FRAME


class TakesAudio(Protocol):
    async def append(self, samples: NDArray[np.int16]) -> None:
        """Sends audio at `RATE_HZ`."""
        ...


class Microphone:
    """`run` sends until it is cancelled; `say` queues samples behind what is being said."""

    def __init__(self, call: TakesAudio) -> None:
        self._call = call
        self._frames: deque[NDArray[np.int16]] = deque()
        pattern = (np.arange(_FRAME) * 7919 % (2 * _HISS + 1) - _HISS).astype(np.int16)
        self._hiss = pattern
        self._sent = 0
        self._began_s = 0.0

    async def run(self) -> None:
        self._began_s = anyio.current_time()
        while True:
            await anyio.sleep_until(self._began_s + self._sent * 0.02)
            frame = self._frames.popleft() if self._frames else self._hiss
            self._sent += 1
            await self._call.append(frame)

    def say(self, samples: NDArray[np.int16]) -> float:
        """Answers when its first sample will be sent, on anyio's clock: samples leave at the pace at which they are spoken."""
        starts_s = self._began_s + (self._sent + len(self._frames)) * 0.02
        for at in range(0, len(samples), _FRAME):
            frame = samples[at : at + _FRAME]
            self._frames.append(frame if len(frame) == _FRAME else np.concatenate((frame, self._hiss[len(frame) :])))
        return max(starts_s, anyio.current_time())
