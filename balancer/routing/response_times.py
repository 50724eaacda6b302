"""How long each runtime's last placements took to start: a ring of samples and its 95th percentile, by slot."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["ResponseTimes"]

_KEPT: Final = 100
_FEWEST: Final = 50


class ResponseTimes:
    """`p95_ms`: NaN with fewer than 50 samples. Rings are made for slots that have samples alone."""

    def __init__(self, size: int) -> None:
        self.p95_ms: NDArray[np.float64] = np.full(size, np.nan)
        self._rings: dict[int, tuple[NDArray[np.float64], int]] = {}

    def grow(self, size: int) -> None:
        more = size - self.p95_ms.shape[0]
        self.p95_ms = np.concatenate((self.p95_ms, np.full(more, np.nan)))

    def forget(self, slot: int) -> None:
        self.p95_ms[slot] = np.nan
        self._rings.pop(slot, None)

    def add(self, slot: int, startup_ms: float) -> None:
        ring, count = self._rings.get(slot) or (np.zeros(_KEPT), 0)
        ring[count % _KEPT] = startup_ms
        count += 1
        self._rings[slot] = (ring, count)
        filled = min(count, _KEPT)
        if filled >= _FEWEST:
            place = int(0.95 * (filled - 1))
            self.p95_ms[slot] = np.partition(ring[:filled], place)[place]
