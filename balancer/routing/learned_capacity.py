"""What reports teach of capacity: the fleet's CPU curve, each machine's speed, what each one's callers cost, and what fits.

In: every report's sessions and CPU. Out: `full_capacity`, in sessions of mean cost, per slot; the curve and the factors it stands
on. Learning is in no hurry, and dear one by one, so measurements are gathered and studied together, once a second.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from balancer.capacity.cost_factors import CostFactors
from balancer.capacity.cpu_curve import Curve, CurveFit
from balancer.routing.load_rule import LoadRule
from runtime.primitives.clock import NS_PER_S

__all__ = ["LearnedCapacity"]

Floats = NDArray[np.float64]
Slots = NDArray[np.intp]
_FIT_EVERY_NS: Final = NS_PER_S
_NOTHING_NS: Final = -(2**62)
_LEAST_MEMORY: Final = 400.0
_WINDOWS_KEPT: Final = 60.0
"""Windows of the whole fleet that a bin of the curve remembers: a minute in which all talk at once is not the long run."""


class LearnedCapacity:
    """`curve` is None, and `full_capacity` without meaning, until enough was seen; for ever where the rule learns nothing."""

    def __init__(self, size: int, rule: LoadRule) -> None:
        self.rule = rule
        self.curve: Curve | None = None
        self.factors = CostFactors(size, rule.mean_life_s)
        self.full_capacity = np.zeros(size)
        self._usual_capacity = 0.0
        """Of a machine of mean speed, as a new one is taken for."""
        self._fit = CurveFit()
        self._fitted_ns = _NOTHING_NS
        self._heard_ns = np.full(size, _NOTHING_NS, np.int64)
        self._heard_active = np.zeros(size)
        self._is_gathered = np.zeros(size, np.bool_)
        self._gathered: list[tuple[Slots, Floats, Floats]] = []
        """Slots, sessions and utilisation that nothing was learned from yet."""

    def grow(self, size: int) -> None:
        self.factors.grow(size)
        for name, fresh in (
            ("full_capacity", self._usual_capacity),
            ("_heard_ns", _NOTHING_NS),
            ("_heard_active", 0.0),
            ("_is_gathered", False),
        ):
            old = getattr(self, name)
            new = np.full(size, fresh, old.dtype)
            new[: old.shape[0]] = old
            setattr(self, name, new)

    def forget(self, slot: int) -> None:
        """The slot has a new life, or none."""
        self.factors.forget(slot)
        if self._is_gathered[slot]:
            kept = [(slots != slot, slots, sessions, used) for slots, sessions, used in self._gathered]
            self._gathered = [(slots[which], sessions[which], used[which]) for which, slots, sessions, used in kept]
            self._is_gathered[slot] = False
        self.full_capacity[slot] = self._usual_capacity
        self._heard_ns[slot] = _NOTHING_NS
        self._heard_active[slot] = 0.0

    def measure(self, slots: Slots, active: Floats, utilisation: Floats, now_ns: int) -> None:
        """Reports of distinct runtimes, utilisation NaN where unknown. At most one a window of each is a measurement: windows
        that overlap tell the same twice."""
        if not self.rule.learns_capacity:
            return
        window_ns = int(self.rule.capacity.window_s * NS_PER_S)
        fit = ~np.isnan(utilisation) & (now_ns - self._heard_ns[slots] >= window_ns * 9 // 10)
        if not fit.any():
            return
        slots, active, utilisation = slots[fit], active[fit], utilisation[fit]
        # The CPU is a mean over the window, so the sessions are too: of its two ends.
        before = self._heard_active[slots]
        sessions = 0.5 * (active + before)
        # A runtime that filled or emptied within the window tells nothing: when it did is unknown.
        is_calm = np.abs(active - before) <= np.maximum(2.0, 0.25 * sessions)
        recent = (now_ns - self._heard_ns[slots] <= 2 * window_ns) & is_calm
        self._heard_ns[slots], self._heard_active[slots] = now_ns, active
        if not recent.any():
            return
        slots = slots[recent]
        if self._is_gathered[slots].any():
            self._study(now_ns)
        self._is_gathered[slots] = True
        self._gathered.append((slots, sessions[recent], utilisation[recent]))

    def learn(self, members: Slots, now_ns: int) -> bool:
        """Brings curve, factors and capacities up to date, once a second at most; `members`: the slots in use. False: not yet."""
        if not self.rule.learns_capacity or now_ns - self._fitted_ns < _FIT_EVERY_NS:
            return False
        self._fitted_ns = now_ns
        self._study(now_ns)
        self.factors.centre(members)
        self._fit.memory = max(_LEAST_MEMORY, _WINDOWS_KEPT * members.size)
        self.curve = self._fit.fit()
        if self.curve is not None:
            variance = self.rule.momentary_variance(self.factors.session_variance, self.factors.mix_variance)
            target, z, reach = self.rule.capacity.target_utilisation, self.rule.z, self.curve.reach
            # Most machines are ordinary ones: only the others are worked out one by one.
            other = np.flatnonzero(self.factors.speed != 1.0)
            speeds = np.append(self.factors.speed[other], 1.0)
            capacities = self.curve.capacities(speeds, target, z, variance, reach)
            self._usual_capacity = float(capacities[-1])
            self.full_capacity = np.full(self.full_capacity.shape, self._usual_capacity)
            self.full_capacity[other] = capacities[:-1]
        return True

    def _study(self, now_ns: int) -> None:
        if not self._gathered:
            return
        slots, sessions, utilisation = (np.concatenate(each) for each in zip(*self._gathered, strict=True))
        self._gathered.clear()
        self._is_gathered[:] = False
        trust = None if self.curve is None else self.factors.trust(slots, sessions, utilisation, self.curve)
        self._fit.learn(sessions * self.factors.speed[slots], utilisation, trust, self.factors.tide)
        if self.curve is not None:
            self.factors.measure(slots, sessions, utilisation, self.curve, now_ns / NS_PER_S)
