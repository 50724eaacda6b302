"""Overload of one runtime by its meter: a level with two thresholds a priority, so that a load at the edge does not flap.

    priority     gets nothing new above     again below
    low          0.8                        0.7
    normal       0.9                        0.8
    high         1.0                        0.9

The load here is the utilisation that the runtime reported, as a share of its allowed cores. What is committed (sessions against
capacity) is bounded apart, exactly and at once, by the effective capacity and the hard limit: counts need no hysteresis, and a
small full runtime must get a new call as soon as one ends.

When most of a crowd is above its threshold at once, the figure tells of the hour (every caller talks), not of a runtime. To
send all new calls to the few that happen to be below would overload those few within one report interval, so then all take
part that are not saturated; whether the fleet as a whole still lets anyone in is for the rule over what is committed.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["OVERLOAD_OFF_BELOW", "OVERLOAD_ON_ABOVE", "SATURATED", "open_to", "overload_levels"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

OVERLOAD_ON_ABOVE: Final = (0.8, 0.9, 1.0)
"""Low, normal, high."""
OVERLOAD_OFF_BELOW: Final = (0.7, 0.8, 0.9)
SATURATED: Final = 0.97
"""Utilisation from which a runtime above its threshold takes no part in what a crowd does."""
_CROWD: Final = 8
"""Runtimes below which most of them say nothing of the hour."""


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


def open_to(level: Floats, utilisation: Floats, serving: Bools, closed_from: int) -> Bools:
    """Who may get something new, of a priority that is closed out from level `closed_from` on; `serving`: who counts.

    In a crowd the lowest priority goes by the rule of the next, so that none is let in where a higher one is not.

    >>> hot = np.array([2.0] * 7 + [0.0])
    >>> open_to(hot, np.full(8, 0.92), np.full(8, True), 2).sum(), open_to(hot[1:], np.full(7, 0.92), np.full(7, True), 2).sum()
    (np.int64(8), np.int64(1))
    """
    is_below = level < closed_from
    crowd = int(np.count_nonzero(serving))
    if crowd >= _CROWD and 2 * int(np.count_nonzero(serving & ~is_below)) > crowd:
        return open_to(level, utilisation, serving, 2) if closed_from == 1 else is_below | (utilisation < SATURATED)
    return is_below
