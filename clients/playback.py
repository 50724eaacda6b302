"""The agent's voice between wire and loudspeaker: paused while it is held, gone when it is flushed, counted as it plays."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clients.call_events import AgentAudio, AgentHeld, AgentResumed, CallEvent, Flushed

__all__ = ["Playback"]

_LONGEST_S: Final = 60


class Playback:
    """`hear` takes a call's events, `take` feeds the loudspeaker; they may be called from two threads.

    What waits is at most a minute: the server sends a fifth of a second ahead, so more waits only where nobody plays, and
    then the oldest goes first.
    """

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._waiting: deque[tuple[int, NDArray[np.int16]]] = deque()
        self._samples = 0
        self._is_held = False
        self._generation = 0
        self._played = 0
        self._lock = threading.Lock()

    @property
    def heard(self) -> tuple[int, int]:
        """The newest generation that was played, and how many milliseconds of it."""
        with self._lock:
            return self._generation, self._played * 1000 // self._rate_hz

    @property
    def waiting_ms(self) -> int:
        with self._lock:
            return self._samples * 1000 // self._rate_hz

    def hear(self, event: CallEvent) -> None:
        with self._lock:
            match event:
                case AgentAudio(generation, samples) if len(samples):
                    self._waiting.append((generation, samples))
                    self._samples += len(samples)
                    while self._samples > _LONGEST_S * self._rate_hz:
                        self._samples -= len(self._waiting.popleft()[1])
                case AgentHeld():
                    self._is_held = True
                case AgentResumed():
                    self._is_held = False
                case Flushed(generation):
                    self._is_held = False
                    self._waiting = deque(each for each in self._waiting if each[0] > generation)
                    self._samples = sum(len(samples) for _, samples in self._waiting)
                case _:
                    pass

    def take(self, count: int) -> NDArray[np.int16]:
        """The next `count` samples to play, silence where there are none: a sound card's callback."""
        out = np.zeros(count, np.int16)
        filled = 0
        with self._lock:
            while filled < count and self._waiting and not self._is_held:
                generation, samples = self._waiting.popleft()
                if generation != self._generation:
                    self._generation, self._played = generation, 0
                part = samples[: count - filled]
                out[filled : filled + len(part)] = part
                filled += len(part)
                self._played += len(part)
                self._samples -= len(part)
                if len(part) < len(samples):
                    self._waiting.appendleft((generation, samples[len(part) :]))
        return out
