"""How many sessions a runtime has now, from what it said a while ago and what was seen since.

    estimate = known + (base - known) * exp(-age * h) - ended + in flight + others      [sessions]

base: active + reserved of the last report or answer. known: those of them whose end we would be told of at once (our own);
the rest is expected to end at the hazard h. ended: known ones that ended since. in flight: our own placements that the base
does not contain. others: what other balancers are expected to have placed there since.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["EndRate", "expected_sessions"]

Floats = NDArray[np.float64]
_PRIOR: Final = 100.0
_MEMORY: Final = 1000.0


def expected_sessions(
    base: Floats, known: Floats, ended: Floats, in_flight: Floats, others: Floats, hazard: float, age_s: Floats
) -> Floats:
    """Elementwise; `hazard` in 1/s, `age_s` in seconds, the rest in sessions. Never negative."""
    seen = np.minimum(known, base)
    estimate = seen + (base - seen) * np.exp(-age_s * hazard) - ended + in_flight + others
    return np.maximum(estimate, 0.0)


class EndRate:
    """How many sessions end, per session and second: of the whole fleet, since one runtime ends too few to tell.

    Starts as if a hundred had ended at the usual rate, and forgets beyond a thousand.
    """

    __slots__ = ("_ended", "_session_s")

    def __init__(self, mean_life_s: float) -> None:
        self._ended = _PRIOR
        self._session_s = _PRIOR * mean_life_s

    def add(self, ended: float, session_s: float) -> None:
        """`ended` sessions during `session_s` seconds of sessions that were live."""
        self._ended += ended
        self._session_s += session_s
        if self._ended > _MEMORY:
            self._session_s *= _MEMORY / self._ended
            self._ended = _MEMORY

    @property
    def per_s(self) -> float:
        return self._ended / self._session_s
