"""CPU against sessions, one curve for the fleet, learned from what reports show.

    u(x) = u0 + k*x + g*x^2        u0, k, g >= 0        x in sessions of mean cost on a runtime of mean speed

Sessions change more slowly than any window forgets, so a fit over recent reports alone loses its slope (and its sense) while a
fleet stands still. Here reports are summed in bins of x, each 10 % wide, and a bin forgets only when it is written: what was
seen at other loads stays. The curve is fitted to the bins' means, with no negative part.
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
_LEAST_MEMORY: Final = 400.0
_IDLE: Final = 1e-9
_STEPS: Final = 20
_CLOSE: Final = 1e-9
_BEND_SPAN: Final = 3.0
"""How far apart loads must lie, as a ratio, before a bend can be told from chance."""
_BASE: Final = 0.25
"""An idle runtime above this does something else than wait: it tells nothing of the others' base load."""
_FOLLOWS: Final = 0.5
"""Memories of a bin after which the whole curve has followed most of what all reports lie above or below it."""
_CALM: Final = 0.1
"""A tide within this is chance, or one liar among many."""
_ENOUGH: Final = 10.0
"""Reports before which nothing is fitted."""
_TRUSTED: Final = 20.0
"""A bin's own mean is believed as if it had at most this many reports: what differs between bins is not only chance."""
_TOP: Final = 3.0
"""So many reports of a load, or of higher ones, make it seen, for how far the curve may be followed."""


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

    @property
    def reach(self) -> float:
        """How far the curve may be followed: what was seen and a quarter, or four sessions, more."""
        return max(self.x_seen + 4.0, 1.25 * self.x_seen)

    def capacities(self, speed: Floats, target: float, z: float, session_variance: float, reach: float) -> Floats:
        """The largest number of sessions n with mean(n) + z * sd(n) <= target, on runtimes of these speeds (1: mean, 2: half as
        fast), where x = speed * n is at most `reach`.

        `session_variance`: variance of one session's momentary CPU over its mean squared (talk and pause); of n sessions that
        speak independently the sum's standard deviation is slope * speed * sqrt(session_variance * n).
        """
        # With y the root of n, mean + z * sd is a polynomial in y without negative parts, so it is convex: from the right of
        # where it meets the target, Newton's steps come down to that point and never pass it.
        spread = z * math.sqrt(session_variance)
        y = np.sqrt(reach / speed)
        for _ in range(_STEPS):
            x = speed * y * y
            bend = self.g * x
            excess = self.u0 + (self.k + bend) * (x + spread * speed * y) - target
            slope = 2.0 * speed * y * (self.k + 2.0 * bend) + spread * speed * (self.k + 3.0 * bend)
            step = np.maximum(excess, 0.0) / np.maximum(slope, 1e-12)
            y = np.maximum(y - step, 0.0)
            if not (step > _CLOSE * (1.0 + y)).any():
                break
        return y * y


class CurveFit:
    """Reports in, curve out.

    u0 is what idle runtimes were seen to use, and 0 until one was: machines of different speed that are evenly loaded look
    like a high base and no slope. The bend is fitted only where loads lie far enough apart, and never without a slope.
    """

    def __init__(self) -> None:
        self.memory = _LEAST_MEMORY
        """Reports that a bin remembers."""
        self._weight = np.zeros(_BINS)
        self._x = np.zeros(_BINS)
        self._u = np.zeros(_BINS)
        self._u0 = 0.0

    @property
    def reports(self) -> float:
        return float(self._weight.sum())

    def learn(self, x: Floats, utilisation: Floats, trust: Floats | None = None, tide: float = 1.0) -> None:
        """Reports: x (sessions of mean cost, at least 0) and utilisation (finite, at least 0), equal length; `trust`: how much
        each counts, 0 to 1, all if not given. `tide`: what all show just now over what the curve says; bins that are not
        written any more follow it slowly, so that calls which have become dearer for good are dear at every load."""
        beyond = min(max(tide, 0.1), 10.0) / min(max(tide, 1.0 - _CALM), 1.0 + _CALM)
        if beyond != 1.0:
            pull = beyond ** (x.shape[0] / (_FOLLOWS * self.memory))
            base = self._u0 * self._weight[1:]
            self._u[1:] = np.where(self._u[1:] > base, base + (self._u[1:] - base) * pull, self._u[1:])
        weight = np.ones_like(x) if trust is None else trust
        weight = np.where((x <= _IDLE) & (utilisation > _BASE), 0.0, weight)
        index = np.where(x < 1.0, np.where(x <= _IDLE, 0, 1), 2 + (np.log(np.maximum(x, 1.0)) / _WIDTH).astype(np.intp))
        np.minimum(index, _BINS - 1, out=index)
        np.add.at(self._weight, index, weight)
        np.add.at(self._x, index, weight * x)
        np.add.at(self._u, index, weight * utilisation)
        full = self._weight > self.memory
        if full.any():
            keep = self.memory / self._weight[full]
            self._weight[full] = self.memory
            self._x[full] *= keep
            self._u[full] *= keep

    def fit(self) -> Curve | None:
        """None: too little was seen, or nothing but idle runtimes."""
        used = self._weight > 0.0
        used[0] = False
        weight = self._weight[used]
        reports = float(weight.sum())
        if reports < _ENOUGH:
            return None
        x, u = self._x[used] / weight, self._u[used] / weight
        from_above = weight[::-1].cumsum()[::-1]
        x_seen = float(x[from_above >= min(_TOP, float(weight.max()))].max())
        if x_seen < 1.0:
            return None
        u0 = float(self._u[0] / self._weight[0]) if self._weight[0] >= _TOP else 0.0
        above = np.maximum(u - min(u0, float(u.min())), 0.0)
        trust = weight / (1.0 + weight / _TRUSTED)
        well = x[weight >= _TRUSTED]
        span = x_seen / max(1.0, float(well.min())) if well.size else 1.0
        self._u0 = min(u0, float(u.min()))
        k, g = _slope_and_bend(x, above, trust, may_bend=span >= _BEND_SPAN)
        if k + g * x_seen <= 1e-7:
            return None
        return Curve(self._u0, k, g, x_seen, reports)


def _slope_and_bend(x: Floats, above: Floats, trust: Floats, *, may_bend: bool) -> tuple[float, float]:
    """Weighted least squares of above = k*x + g*x^2, both at least 0, k above 0; a bend must earn its place."""
    xx, xu = float((trust * x * x).sum()), float((trust * x * above).sum())
    plain = max(xu / xx, 0.0)
    if not may_bend:
        return plain, 0.0
    xxx, xxxx, xxu = float((trust * x**3).sum()), float((trust * x**4).sum()), float((trust * x * x * above).sum())
    determinant = xx * xxxx - xxx * xxx
    if determinant <= 1e-9 * xx * xxxx:
        return plain, 0.0
    k, g = (xu * xxxx - xxu * xxx) / determinant, (xxu * xx - xu * xxx) / determinant
    if k <= 0.0 or g <= 0.0:
        return plain, 0.0
    straight = float((trust * (above - plain * x) ** 2).sum())
    bent = float((trust * (above - k * x - g * x * x) ** 2).sum())
    return (k, g) if bent < 0.9 * straight else (plain, 0.0)
