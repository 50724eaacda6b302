"""What the sessions of all runtimes have in common just now, over what the fleet's curve says of them: when every caller talks at
once, that is no one runtime's cost.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Tide"]

Floats = NDArray[np.float64]
_FEW: Final = 10.0
"""Reports that show at once which way it goes."""
_SIGMAS: Final = 3.0
_TURNS: Final = 0.02
"""A change that is none, however sure it is."""
_FAR: Final = (0.4, 2.5)
"""Of the middle: who is further away counts as if here. One liar is no tide."""
_LEAST: Final = 0.1


class Tide:
    """`level`: the mean, 1 where all is as the curve says. `middle`: of the middle runtime, which no liar moves."""

    def __init__(self) -> None:
        self.middle = 1.0
        self._mean = 1.0
        self._weight = 0.0
        self._newest = 1.0
        self._spread = 0.0

    @property
    def level(self) -> float:
        return max(self._mean, _LEAST)

    def follow(self, relative: Floats, runtimes: int) -> None:
        """New measurements, each over the curve and its machine's speed; of so many runtimes at most, each once a round.

        It is the mean of a round. But a mean over the whole fleet lags by a round where the tide turns, and what all have in
        common would look like lasting cost of whoever reported first: then the last few reports are believed.
        """
        count = relative.shape[0]
        self._weight = min(self._weight + count, max(_FEW, float(runtimes)))
        share = min(1.0, count / self._weight)
        # Of one or two, none is the middle: what was is better.
        middle = float(np.median(relative)) if count > 2 else self._mean
        mean = float(np.clip(relative, _FAR[0] * middle, _FAR[1] * middle).mean())
        distance = float(np.minimum(np.square(relative / max(self._newest, _LEAST) - 1.0), 1.0).mean())
        self.middle += (middle - self.middle) * share
        self._mean += (mean - self._mean) * share
        self._spread += (distance - self._spread) * share
        few = min(_FEW, self._weight)
        self._newest += (mean - self._newest) * min(1.0, count / few)
        # The spread among runtimes is chance, and machines whose speed is not known yet.
        noise = math.sqrt(self._spread / few)
        if abs(self._newest - self._mean) > (_SIGMAS * noise + _TURNS) * self._mean:
            self._mean, self._weight = self._newest, few
