"""Percentiles by nearest rank. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["percentile"]


def percentile(values: Sequence[float], ratio: float) -> float | None:
    """The smallest value that at least `ratio` of all values do not exceed (nearest rank); None without values.

    >>> percentile([3.0, 1.0, 2.0, 4.0], 0.5), percentile([1.0, 9.0], 0.95), percentile([], 0.5)
    (2.0, 9.0, None)
    """
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(ratio * len(ordered)) - 1)]
