"""CPU against sessions, one curve for the fleet, learned from what reports show.

    u(x) = u0 + k*x + g*x^2        u0, k, g >= 0        x in sessions of mean cost on a runtime of mean speed

Sessions change more slowly than any window forgets, so a fit over recent reports alone loses its slope (and its sense) while a
fleet stands still. Here reports are summed in bins of x, each 10 % wide, and a bin forgets only when it is written: what was
seen at other loads stays. The curve is fitted to the bins' means, with no negative part, and with as many parts as the bins
can tell apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Curve", "CurveFit"]

Floats = NDArray[np.float64]
_WIDTH: Final = math.log(1.1)
_BINS: Final = 128
_MOST: Final = 400.0
"""Reports that a bin remembers."""
_ENOUGH: Final = 10.0
"""Reports before which nothing is fitted."""
_TRUSTED: Final = 20.0
"""A bin's own mean is believed as if it had at most this many reports: what differs between bins is not only chance."""
_TOP: Final = 3.0
"""Reports above which a bin counts as seen, for how far the curve may be followed."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A fitted curve. `x_seen`: the highest load that was really seen; `reports`: how many the fit stands on."""

    u0: float
    k: float
    g: float
    x_seen: float
    reports: float

    def utilisation(self, x: Floats) -> Floats:
        return self.u0 + x * (self.k + self.g * x)

    def sessions_at(self, utilisation: Floats) -> Floats:
        """The x whose utilisation this is, at least 0."""
        above = np.maximum(utilisation - self.u0, 0.0)
        if self.g <= 1e-12:
            return above / max(self.k, 1e-9)
        return (np.sqrt(self.k * self.k + 4.0 * self.g * above) - self.k) / (2.0 * self.g)

    def capacity(self, target: float, z: float, session_variance: float) -> float:
        """The largest x with mean(x) + z * sd(x) <= target, in sessions of mean cost.

        `session_variance`: variance of one session's momentary CPU over its mean squared (talk and pause); of x sessions that
        speak independently the sum's standard deviation is slope * sqrt(session_variance * x). Never beyond what was seen by
        more than a quarter or four sessions.
        """
        return self.capacity_within(max(self.x_seen + 4.0, 1.25 * self.x_seen), target, z, session_variance)

    def capacity_within(self, reach: float, target: float, z: float, session_variance: float) -> float:
        """The same, at most `reach`."""
        low, high = 0.0, reach
        if self._stressed(reach, z, session_variance) <= target:
            return reach
        for _ in range(30):
            middle = (low + high) / 2.0
            if self._stressed(middle, z, session_variance) <= target:
                low = middle
            else:
                high = middle
        return low

    def _stressed(self, x: float, z: float, session_variance: float) -> float:
        slope = self.k + self.g * x
        return self.u0 + slope * x + z * slope * math.sqrt(session_variance * x)


class CurveFit:
    """Reports in, curve out."""

    def __init__(self) -> None:
        self._weight = np.zeros(_BINS)
        self._x = np.zeros(_BINS)
        self._u = np.zeros(_BINS)

    @property
    def reports(self) -> float:
        return float(self._weight.sum())

    def learn(self, x: Floats, utilisation: Floats) -> None:
        """Reports: x (sessions of mean cost, at least 0) and utilisation (finite, at least 0), equal length."""
        index = np.where(x < 1.0, 0, 1 + (np.log(np.maximum(x, 1.0)) / _WIDTH).astype(np.intp))
        np.minimum(index, _BINS - 1, out=index)
        np.add.at(self._weight, index, 1.0)
        np.add.at(self._x, index, x)
        np.add.at(self._u, index, utilisation)
        full = self._weight > _MOST
        if full.any():
            keep = _MOST / self._weight[full]
            self._weight[full] = _MOST
            self._x[full] *= keep
            self._u[full] *= keep

    def fit(self) -> Curve | None:
        """None: too little was seen, or nothing but idle runtimes."""
        used = self._weight > 0.0
        weight = self._weight[used]
        reports = float(weight.sum())
        if reports < _ENOUGH:
            return None
        x, u = self._x[used] / weight, self._u[used] / weight
        seen = x[weight >= min(_TOP, float(weight.max()))]
        x_seen = float(seen.max())
        if x_seen < 1.0:
            return None
        trust = weight / (1.0 + weight / _TRUSTED)
        # How far apart the seen loads lie decides what can be told: a base needs twofold, a bend threefold. Closer together, the
        # little that x differs is drowned by what else differs, and a fitted slope is too flat.
        well = x[weight >= _TRUSTED]
        lowest = float(well.min()) if well.size else x_seen
        span = x_seen / max(1.0, lowest)
        parts = 1 if span < 2.0 else 2 if span < 3.0 else 3
        u0, k, g = _non_negative_fit(x, u, trust, parts)
        if k + g * x_seen <= 1e-7:
            return None
        return Curve(u0, k, g, x_seen, reports)


def _non_negative_fit(x: Floats, u: Floats, weight: Floats, parts: int) -> tuple[float, float, float]:
    """The best of all fits with at most `parts` non-negative coefficients. The plain slope is always among them; another must
    be better by more than its extra freedom earns."""
    columns = np.stack((np.ones_like(x), x, x * x))
    scaled = columns * weight
    products, wanted = scaled @ columns.T, scaled @ u
    total = float((weight * u * u).sum())
    best: tuple[float, list[float]] | None = None
    for chosen in _SUBSETS:
        if len(chosen) > parts:
            continue
        picked = list(chosen)
        matrix = products[np.ix_(picked, picked)]
        try:
            solved = np.linalg.solve(matrix + np.diag(np.diag(matrix)) * 1e-9, wanted[picked])
        except np.linalg.LinAlgError:
            continue
        if (solved < 0.0).any():
            continue
        error = max(total - float(solved @ wanted[picked]), 1e-9 * total) * (1.0 + 0.05 * len(picked))
        if best is None or error < best[0]:
            coefficients = [0.0, 0.0, 0.0]
            for place, value in zip(picked, solved, strict=True):
                coefficients[place] = float(value)
            best = (error, coefficients)
    if best is None:
        return 0.0, 0.0, 0.0
    return best[1][0], best[1][1], best[1][2]


_SUBSETS: Final = ((1,), (0, 1), (1, 2), (0, 1, 2), (2,), (0, 2))
"""Of (u0, k, g); never u0 alone: sessions that cost nothing would be placed without end."""
