"""Where the next sessions belong: water poured over the fleet, which fills the emptiest first.

    sum over i of max(0, L * C_i - load_i) = volume          L: the level, at most `ceiling`
    gap_i = max(0, L * C_i - load_i)                         [sessions]

A runtime's chance of the next session is in proportion to its gap, so the expected arrivals of the coming moments leave all at
the same share of their capacity.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["pour"]

Floats = NDArray[np.float64]


def pour(load: Floats, capacity: Floats, volume: float, ceiling: float = 1.0) -> tuple[float, Floats]:
    """The level and the gaps. `load` and `capacity` (above 0) in sessions, equal length, at least one; `volume` above 0.

    >>> pour(np.array([2.0, 6.0]), np.array([10.0, 10.0]), 4.0)
    (0.6, array([4., 0.]))
    >>> pour(np.array([9.0, 10.0]), np.array([10.0, 10.0]), 5.0)
    (1.0, array([1., 0.]))
    """
    fullness = load / capacity
    order = fullness.argsort()
    levels = (load[order].cumsum() + volume) / capacity[order].cumsum()
    stays_below_next = levels[:-1] <= fullness[order[1:]]
    last = int(stays_below_next.argmax()) if stays_below_next.any() else levels.shape[0] - 1
    level = min(float(levels[last]), ceiling)
    return level, np.maximum(level * capacity - load, 0.0)
