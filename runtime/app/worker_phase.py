"""A worker's process as its supervisor sees it: a table of phases, and how long each may last. Pure.

    down      nobody there           STARTED -> starting
    starting  not yet ready          SAID_READY -> ready    ASKED -> leaving    ENDED -> down
    ready     takes calls            ASKED -> leaving       ENDED -> down
    leaving   was asked to drain     ENDED -> down

Whatever else happens in a phase changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

__all__ = ["NEXT", "Bounds", "Happening", "Patience", "Phase"]

_LONGEST_LOOK_S: Final = 1.0


class Phase(Enum):
    DOWN = auto()
    STARTING = auto()
    READY = auto()
    LEAVING = auto()


class Happening(Enum):
    STARTED = auto()
    SAID_READY = auto()
    ASKED = auto()
    """It was asked to leave."""
    ENDED = auto()


NEXT: Final = {
    (Phase.DOWN, Happening.STARTED): Phase.STARTING,
    (Phase.STARTING, Happening.SAID_READY): Phase.READY,
    (Phase.STARTING, Happening.ASKED): Phase.LEAVING,
    (Phase.STARTING, Happening.ENDED): Phase.DOWN,
    (Phase.READY, Happening.ASKED): Phase.LEAVING,
    (Phase.READY, Happening.ENDED): Phase.DOWN,
    (Phase.LEAVING, Happening.ENDED): Phase.DOWN,
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """Seconds that a worker may take: to become ready, between two beats (0: for ever), and to leave when it was asked."""

    start_s: float
    silence_s: float
    leave_s: float


class Patience:
    """How long one process has been in its phase, and how long it has said nothing.

    Only time in which the supervisor itself ran counts: of two looks far apart, a second. A machine that stood still, or was too
    busy for us, was so for the worker too, and says nothing about it.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._phase = Phase.STARTING
        self._was_ready = False
        self._in_phase_s = 0.0
        self._silent_s = 0.0

    def entered(self, phase: Phase) -> None:
        self._phase = phase
        self._was_ready = self._was_ready or phase is Phase.READY
        self._in_phase_s = self._silent_s = 0.0

    def heard(self) -> None:
        """It said something: its event loop runs."""
        self._silent_s = 0.0

    def passed(self, elapsed_s: float) -> str:
        """Counts the time since the last look; answers why the process is given up, empty where it is not."""
        counted_s = min(elapsed_s, _LONGEST_LOOK_S)
        self._in_phase_s += counted_s
        self._silent_s += counted_s
        bounds = self._bounds
        if self._phase is Phase.STARTING and self._in_phase_s > bounds.start_s:
            return f"it was not ready within {bounds.start_s:g} s"
        if self._phase is Phase.LEAVING and self._in_phase_s > bounds.leave_s:
            return f"it had not left within {bounds.leave_s:g} s"
        # Before it is ready it may load for long, with its event loop at rest.
        if self._was_ready and bounds.silence_s and self._silent_s > bounds.silence_s:
            return f"its event loop said nothing for {bounds.silence_s:g} s"
        return ""
