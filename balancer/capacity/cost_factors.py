"""What the sessions of each runtime cost, against the fleet's curve: how slow its machine is, and how dear its callers are now.

    measured = sessions that the curve gives for this CPU / sessions that were there          1: as the fleet's mean
    measured = speed * mix * noise

`speed` is the machine and stays; it is 1 until the mean of many measurements says otherwise by three standard deviations.
`mix` is the callers who happen to be here and fades with them. How much of a measurement to believe is learned from the whole
fleet: talk and pause differ from one window to the next, a dear caller does not, so what successive measurements of the same
runtime have in common is mix, and the rest is noise. In a fleet of like callers nothing is common and the mix stays 1.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from balancer.capacity.cpu_curve import Curve
from balancer.capacity.tide import Tide

__all__ = ["CostFactors"]

Floats = NDArray[np.float64]
Slots = NDArray[np.intp]
_FEWEST: Final = 2.0
"""Sessions below which a measurement is mostly rounding."""
_SPEED_MEMORY: Final = 64.0
"""Measurements over which the speed is averaged."""
_SPEED_ENOUGH: Final = 4.0
_POOL_FROM: Final = 10.0
_POOL_MEMORY: Final = 4000.0
_POOL_ENOUGH: Final = 40.0
_SIGMAS: Final = 3.0
_TRUST_SIGMAS: Final = 2.0
_ABSURD: Final = 4.0
_USUAL_VARIANCE: Final = 0.08
"""Of a talking and pausing caller over ten seconds."""
_RANGE: Final = (0.1, 10.0)


class CostFactors:
    """Per slot `speed` and `mix` (1: the fleet's mean), and the pooled variances. Measurements of one runtime must not share
    a window: the owner gives a slot at most one each `window_s`."""

    def __init__(self, size: int, mean_life_s: float) -> None:
        self.mean_life_s = mean_life_s
        self.speed = np.ones(size)
        self.mix = np.ones(size)
        self.sessions = np.zeros(size)
        """Sessions at the measurement that `mix` stands on."""
        self._mean = np.ones(size)
        self._count = np.zeros(size)
        self._previous = np.full(size, np.nan)
        self._at_s = np.zeros(size)
        self._uncertain = np.zeros(size)
        self._tide = Tide()
        self._pairs = 0.0
        self._singles = 0.0
        self._square = 0.0
        self._common = 0.0

    def grow(self, size: int) -> None:
        for name, fresh in (
            ("speed", 1.0),
            ("mix", 1.0),
            ("sessions", 0.0),
            ("_mean", 1.0),
            ("_count", 0.0),
            ("_previous", math.nan),
            ("_at_s", 0.0),
            ("_uncertain", 0.0),
        ):
            old = getattr(self, name)
            new = np.full(size, fresh)
            new[: old.shape[0]] = old
            setattr(self, name, new)

    def forget(self, slot: int) -> None:
        """The slot has a new life: what its callers cost is unknown again. Its machine is taken for an ordinary one."""
        self.speed[slot] = self.mix[slot] = self._mean[slot] = 1.0
        self.sessions[slot] = self._count[slot] = self._at_s[slot] = self._uncertain[slot] = 0.0
        self._previous[slot] = math.nan

    @property
    def session_variance(self) -> float:
        """Relative variance of one session's CPU in a window: talk, pause and cost."""
        return self._square / self._singles if self._singles >= _POOL_ENOUGH else _USUAL_VARIANCE

    @property
    def tide(self) -> float:
        """What the middle runtime's sessions cost just now, over what the curve says; 1: as it says."""
        return self._tide.middle

    @property
    def mix_variance(self) -> float:
        """Relative variance of one session's lasting cost; 0 while chance alone could explain what was seen."""
        if self._pairs < _POOL_ENOUGH:
            return 0.0
        mean = self._common / self._pairs
        error = self.session_variance / math.sqrt(self._pairs)
        return min(mean, self.session_variance) if mean > _SIGMAS * error else 0.0

    def measure(self, slots: Slots, sessions: Floats, utilisation: Floats, curve: Curve, now_s: float) -> None:
        """New measurements: distinct `slots`, sessions during the window, utilisation of the window (finite, at least 0)."""
        # A mean of at least 1 % CPU: below that the reading is more noise than load.
        usable = (sessions >= _FEWEST) & (utilisation - curve.u0 >= 0.01)
        if not usable.any():
            return
        slots, sessions, utilisation = slots[usable], sessions[usable], utilisation[usable]
        relative = curve.sessions_at(utilisation) / sessions
        self._tide.follow(relative / self.speed[slots], int(np.count_nonzero(self._count)))
        measured = np.clip(relative / self._tide.level, *_RANGE)
        self._pool(slots, sessions, measured)
        self._learn_speed(slots, sessions, measured, now_s)
        self._learn_mix(slots, sessions, measured, now_s)
        self._at_s[slots] = now_s

    def trust(self, slots: Slots, sessions: Floats, utilisation: Floats, curve: Curve) -> Floats:
        """How much the fleet's curve should learn of these reports, 0 to 1: one runtime with a stuck thread, or with a meter
        that lies, must not tell the others what a session costs. What the whole fleet shows is the tide, and is learned."""
        known = self.speed[slots] * self.mix[slots] * self._tide.level
        relative = curve.sessions_at(utilisation) / np.maximum(sessions, 1.0) / known
        usual = _TRUST_SIGMAS * (np.sqrt(_USUAL_VARIANCE / np.maximum(sessions, 1.0)) + 0.05)
        weight = np.minimum(1.0, usual / np.maximum(np.abs(relative - 1.0), 1e-9))
        absurd = (relative > _ABSURD) | (relative < 1.0 / _ABSURD)
        # A runtime with a session or two, or hardly any CPU, is told by its base load: nothing to doubt or to trust.
        return np.where((sessions < _FEWEST) | (utilisation - curve.u0 < 0.01), 1.0, np.where(absurd, 0.0, weight))

    def centre(self, slots: Slots) -> None:
        """Speeds are relative to the fleet's middle machine: without this, they and the curve could drift apart together. The
        middle, not the mean: one liar would make all others fast."""
        if slots.size:
            middle = float(np.median(self.speed[slots]))
            self.speed[slots] /= middle
            self._mean[slots] /= middle

    def _pool(self, slots: Slots, sessions: Floats, measured: Floats) -> None:
        # Noise falls with the root of the sessions; scaled by it, all runtimes tell of the same quantity.
        count = self._count[slots]
        # The mean is of the same measurements, and of few at first: its own error is not the session's.
        scaled = (measured / self._mean[slots] - 1.0) * np.sqrt(sessions * count / (count + 1.0))
        settled = count >= _POOL_FROM
        scaled = np.where(settled, scaled, np.nan)
        before = self._previous[slots]
        now_known = ~np.isnan(scaled)
        both = now_known & ~np.isnan(before)
        most = 4.0 * math.sqrt(_USUAL_VARIANCE)  # a liar must not widen what is believed of the others
        scaled = np.clip(scaled, -most, most)
        self._square += float(np.square(scaled[now_known]).sum())
        self._singles += float(now_known.sum())
        self._common += float((scaled[both] * before[both]).sum())
        self._pairs += float(both.sum())
        self._previous[slots] = scaled
        if self._singles > _POOL_MEMORY:
            keep = _POOL_MEMORY / self._singles
            self._singles, self._square = _POOL_MEMORY, self._square * keep
        if self._pairs > _POOL_MEMORY:
            keep = _POOL_MEMORY / self._pairs
            self._pairs, self._common = _POOL_MEMORY, self._common * keep

    def _learn_speed(self, slots: Slots, sessions: Floats, measured: Floats, now_s: float) -> None:
        count = self._count[slots] = np.minimum(self._count[slots] + 1.0, _SPEED_MEMORY)
        self._mean[slots] += (measured - self._mean[slots]) / count
        mean = self._mean[slots]
        # Dear callers stay for a while, so their measurements are not independent: they count once a mean life.
        interval = np.where(self._at_s[slots] > 0.0, now_s - self._at_s[slots], self.mean_life_s)
        lives = np.maximum(1.0, count * np.minimum(interval, self.mean_life_s) / (2.0 * self.mean_life_s))
        variance = self.session_variance / count + self.mix_variance / lives
        far = np.abs(mean - 1.0) > _SIGMAS * np.sqrt(variance / sessions) + 0.02
        self.speed[slots] = np.where(far & (count >= _SPEED_ENOUGH), mean, 1.0)

    def _learn_mix(self, slots: Slots, sessions: Floats, measured: Floats, now_s: float) -> None:
        lasting = self.mix_variance
        if lasting <= 0.0:
            self.mix[slots] = 1.0
            self._uncertain[slots] = 0.0
            self.sessions[slots] = sessions
            return
        noise = max(self.session_variance - lasting, 0.05 * lasting) / sessions
        stay = np.exp(-(now_s - self._at_s[slots]) / self.mean_life_s)
        # Newcomers are of mean cost: they thin out what was known of the others.
        stay *= np.minimum(1.0, self.sessions[slots] / sessions)
        expected = 1.0 + stay * (self.mix[slots] - 1.0)
        uncertain = stay * stay * self._uncertain[slots] + (1.0 - stay * stay) * lasting / sessions
        gain = uncertain / (uncertain + noise)
        self.mix[slots] = np.clip(expected + gain * (measured / self.speed[slots] - expected), *_RANGE)
        self._uncertain[slots] = (1.0 - gain) * uncertain
        self.sessions[slots] = sessions
