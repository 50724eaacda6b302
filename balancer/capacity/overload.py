"""Overload of one runtime by its meter: a level with two thresholds a priority, so that a load at the edge does not flap.

    priority     gets nothing new above     again below
    low          0.8                        0.7
    normal       0.9                        0.8
    high         1.0                        0.9

The load here is the utilisation that the runtime reported, as a share of its allowed cores. What is committed (sessions against
capacity) is bounded apart, exactly and at once, by the effective capacity and the hard limit: counts need no hysteresis, and a
small full runtime must get a new call as soon as one ends.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["OVERLOAD_OFF_BELOW", "OVERLOAD_ON_ABOVE", "overload_levels"]

Floats = NDArray[np.float64]

OVERLOAD_ON_ABOVE: Final = (0.8, 0.9, 1.0)
"""Low, normal, high."""
OVERLOAD_OFF_BELOW: Final = (0.7, 0.8, 0.9)


def overload_levels(level: Floats, utilisation: Floats) -> Floats:
    """How many priorities, lowest first, get nothing new now; `level`: how many did. NaN utilisation: unchanged.

    >>> overload_levels(np.array([0.0, 2.0, 2.0]), np.array([0.95, 0.85, float("nan")]))
    array([2., 2., 2.])
    """
    reached, held = np.zeros_like(level), np.zeros_like(level)
    for on, off in zip(OVERLOAD_ON_ABOVE, OVERLOAD_OFF_BELOW, strict=True):
        reached += utilisation > on
        held += utilisation >= off
    return np.where(np.isnan(utilisation), level, np.maximum(reached, np.minimum(level, held)))
