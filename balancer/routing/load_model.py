"""The brain's picture of load: what each runtime holds now, how much it can hold, and how fast the fleet fills.

In: reports, answers and our own placements, through the view. Out: the columns `estimate`, `load`, `capacity`, `effective`,
`is_full`, `is_capped`, the fleet's start rate and its load. `refresh` brings time up to date; news of single runtimes act at
once.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from balancer.capacity.cold_floor import floored_capacities
from balancer.capacity.cost_factors import CostFactors
from balancer.capacity.cpu_curve import Curve
from balancer.capacity.effective_capacity import effective_capacities
from balancer.capacity.overload import SATURATED, overload_levels
from balancer.capacity.session_estimate import EndRate, expected_sessions
from balancer.capacity.start_rate import StartRate
from balancer.capacity.water_level import pour
from balancer.routing.columns import Columns
from balancer.routing.learned_capacity import LearnedCapacity
from balancer.routing.load_rule import LoadRule
from balancer.routing.reports import Reports
from runtime.primitives.clock import NS_PER_S

__all__ = ["LoadModel"]

Floats = NDArray[np.float64]
Slots = NDArray[np.intp]
_NOTHING_NS: Final = -(2**62)
_OWN_SHARE: Final = 0.005
_LARGE: Final = 2000
"""Runtimes above which learning and bringing all up to date are two steps."""
_ROUNDING: Final = 0.05
"""A whole session fits also where an estimate has grown by this: estimates are no whole numbers."""
_SURE_AFTER: Final = 20.0
"""Reports of the whole fleet after which half of the learned headroom's doubt is gone."""


class LoadModel:
    def __init__(self, columns: Columns, rule: LoadRule) -> None:
        self.rule = rule
        self.learned = LearnedCapacity(columns.size, rule)
        self.flips = 0
        """Grows whenever a runtime begins or ceases to have room."""
        self.news = 0
        """Grows with every runtime that was heard of."""
        self._capacity_sum = 0.0
        self._load_sum = 0.0
        self._columns = columns
        self.ends = EndRate(rule.mean_life_s)
        self._starts = StartRate()
        self._own_starts = StartRate()
        self._chance = np.zeros(columns.size)
        self._refreshed_ns = _NOTHING_NS

    @property
    def curve(self) -> Curve | None:
        return self.learned.curve

    @property
    def factors(self) -> CostFactors:
        return self.learned.factors

    def grow(self, size: int) -> None:
        self.learned.grow(size)
        chance = np.zeros(size)
        chance[: self._chance.shape[0]] = self._chance
        self._chance = chance

    def forget(self, slot: int) -> None:
        self.learned.forget(slot)
        self._chance[slot] = 0.0

    # News

    def report(self, reports: Reports, known: Floats, now_ns: int) -> None:
        """`known`: of each runtime's sessions, those whose end we are told of at once."""
        c, slots = self._columns, reports.slots
        heard_before = c.reported_ns[slots] > _NOTHING_NS
        interval_s = np.maximum(now_ns - c.reported_ns[slots], 1) / NS_PER_S
        if (interval_s > 2.5 * self.rule.report_interval_s).any():
            self.flips += 1  # one that was too old may serve again
        started = np.maximum(reports.started_total - c.started_total[slots], 0.0)
        ours = np.minimum(started, c.own_waiting[slots])
        # A counter that jumped is no rush of callers: no more than doubles what is there, and some.
        others = np.where(heard_before, np.minimum(started - ours, 2.0 * reports.active + 2.0 * interval_s + 4.0), 0.0)
        # Places of ours that have not started are among the reserved; those that never will are not.
        c.own_waiting[slots] = np.minimum(c.own_waiting[slots] - ours, reports.reserved)
        most = np.maximum(c.reported[slots] - reports.active, 0.0) + ours + others + 2.0 * interval_s + 4.0
        ended = np.minimum(np.maximum(reports.ended_total - c.ended_total[slots], 0.0), most)
        if heard_before.any():
            exposure = 0.5 * (reports.active + c.reported[slots]) * interval_s
            self.ends.add(float(ended[heard_before].sum()), float(exposure[heard_before].sum()))
        c.started_total[slots], c.ended_total[slots] = reports.started_total, reports.ended_total
        c.active[slots], c.reserved[slots], c.hard_limit[slots] = reports.active, reports.reserved, reports.hard_limit
        c.reported[slots], c.reported_ns[slots] = reports.active, now_ns
        was_saturated, is_saturated = c.utilisation[slots] >= SATURATED, reports.utilisation >= SATURATED
        self.flips += int((was_saturated != is_saturated).any())
        c.utilisation[slots], c.startup_ms[slots] = reports.utilisation, reports.startup_ms
        for name, values in reports.extras():
            if name == "context_window":
                self.flips += int((c.context_window[slots] != values).any())
            getattr(c, name)[slots] = values
        level = overload_levels(c.overload[slots], reports.utilisation)
        self.flips += int((level != c.overload[slots]).any())
        c.overload[slots] = level
        self._rebase(slots, reports.active + reports.reserved, known, now_ns)
        if others.any():
            self._starts.add(now_ns, float(others.sum()))
        self.learned.measure(slots, reports.active, reports.utilisation, now_ns)
        self.news += slots.shape[0]
        self._update(slots, now_ns)

    def answer(self, slot: int, active: int, reserved: int, known: float, now_ns: int) -> None:
        """Fresh counts of one runtime, newer than its last report."""
        c = self._columns
        c.active[slot], c.reserved[slot] = active, reserved
        base = active + reserved
        c.base[slot], c.known[slot] = base, min(known, base)
        c.ended[slot] = c.others[slot] = 0.0
        c.arrived_ns[slot] = now_ns
        self.news += 1
        self.change(slot, base + c.in_flight.item(slot))

    def placed(self, now_ns: int) -> None:
        """One more placement of ours was begun."""
        self._own_starts.add(now_ns)

    def change(self, slot: int, estimate: float) -> None:
        """One runtime's estimate is now this; everything that follows from it follows."""
        c = self._columns
        estimate = max(estimate, 0.0)
        load = estimate + (self.learned.factors.mix.item(slot) - 1.0) * min(c.base.item(slot), estimate)
        if c.eligible.item(slot) and c.ready.item(slot):
            self._load_sum += load - c.load.item(slot)
        c.estimate[slot], c.load[slot] = estimate, load
        is_full, is_capped = estimate + 0.5 > c.hard_limit.item(slot), load + 1.0 > c.effective.item(slot) + _ROUNDING
        if is_full != c.is_full.item(slot) or is_capped != c.is_capped.item(slot):
            c.is_full[slot], c.is_capped[slot] = is_full, is_capped
            self.flips += 1

    # Time

    def refresh(self, now_ns: int, least_age_ns: int = 0) -> bool:
        """Brings every runtime up to `now`; False: it was done less than `least_age_ns` ago, or is
        done at the next call."""
        elapsed_ns = now_ns - self._refreshed_ns
        if 0 <= elapsed_ns < least_age_ns:
            return False
        c = self._columns
        slots = np.flatnonzero(c.used)
        if self.learned.learn(slots, now_ns) and slots.size > _LARGE and 0 <= elapsed_ns < NS_PER_S:
            return False  # two steps rather than one that holds up the event loop: the rest at the next call
        others_rate = self._starts.slow_per_s(now_ns)
        if others_rate > 1e-3 and 0 < elapsed_ns < 60 * NS_PER_S:
            c.others += self._chance * (others_rate * elapsed_ns / NS_PER_S)
            np.minimum(c.others, c.hard_limit, out=c.others)
        self._refreshed_ns = now_ns
        self._update(slots, now_ns)
        self.recount()
        serving = np.flatnonzero(c.eligible & c.ready & (c.capacity > 0.0))
        self._chance[:] = 0.0
        if serving.size and others_rate > 1e-3:
            volume = self.volume(now_ns)
            _, gaps = pour(c.load[serving], c.capacity[serving], volume)
            total = float(gaps.sum())
            if total > 0.0:
                self._chance[serving] = gaps / total
        return True

    def recount(self) -> None:
        """The sums over those that serve, from the ground: who serves may have changed."""
        c = self._columns
        serving = c.eligible & c.ready
        self._load_sum, self._capacity_sum = float(c.load[serving].sum()), float(c.capacity[serving].sum())

    def start_rate(self, now_ns: int) -> float:
        """Starts of the whole fleet, per second; 0: too few were seen."""
        return self._own_starts.per_s(now_ns) + self._starts.slow_per_s(now_ns)

    def volume(self, now_ns: int) -> float:
        """Sessions to plan for: what others are expected to start within the horizon, and our own, at least one.

        Our own are seen at once, so planning for many of them only saves planning: they may raise the level by half a hundredth.
        """
        horizon_s = self.rule.horizon_s
        own = min(self._own_starts.per_s(now_ns) * horizon_s, _OWN_SHARE * self._capacity_sum)
        return max(1.0, self._starts.slow_per_s(now_ns) * horizon_s + own)

    def fair_share_per_s(self, slot: int, now_ns: int) -> float:
        """This runtime's share of the fleet's starts, by capacity; 0: unknown."""
        if self._capacity_sum <= 0.0:
            return 0.0
        return self.start_rate(now_ns) * self._columns.capacity.item(slot) / self._capacity_sum

    @property
    def load_now(self) -> float:
        """Load of the serving fleet over its capacity; 1 where nobody serves."""
        return self._load_sum / self._capacity_sum if self._capacity_sum > 0.0 else 1.0

    # Inside

    def _rebase(self, slots: Slots, base: Floats, known: Floats, now_ns: int) -> None:
        c = self._columns
        c.base[slots], c.known[slots] = base, np.minimum(known, base)
        c.ended[slots] = c.others[slots] = 0.0
        c.arrived_ns[slots] = now_ns

    def _update(self, slots: Slots, now_ns: int) -> None:
        c, rule = self._columns, self.rule
        age_s = np.maximum(now_ns - np.maximum(c.arrived_ns[slots], now_ns - 3600 * NS_PER_S), 0) / NS_PER_S
        estimate = expected_sessions(
            c.base[slots], c.known[slots], c.ended[slots], c.in_flight[slots], c.others[slots], self.ends.per_s, age_s
        )
        load = estimate + (self.learned.factors.mix[slots] - 1.0) * np.minimum(c.base[slots], estimate)
        hard_limit = c.hard_limit[slots]
        utilisation = c.utilisation[slots]
        unknown = np.isnan(utilisation)
        if unknown.any():
            utilisation = np.where(unknown, self._unknown_utilisation(), utilisation)
        r1 = effective_capacities(c.active[slots], utilisation, hard_limit, rule.capacity)
        c.headroom_r1[slots] = r1 - estimate
        curve = self.learned.curve
        if curve is None:
            capacity = hard_limit
            effective = floored_capacities(c.active[slots], utilisation, hard_limit, rule.capacity)
        else:
            capacity = np.minimum(self.learned.full_capacity[slots], hard_limit)
            doubt = 1.0 / (1.0 + curve.reports / _SURE_AFTER)
            caution = 1.0 + (rule.capacity.scaler - 1.0) * doubt
            effective = np.where(capacity > load, load + (capacity - load) / caution, capacity)
            effective = np.where(unknown, np.minimum(effective, np.maximum(r1, estimate)), effective)
        load, capacity = self._trusted(load, capacity, age_s)
        serves = c.eligible[slots] & c.ready[slots]
        self._load_sum += float((load - c.load[slots])[serves].sum())
        self._capacity_sum += float((capacity - c.capacity[slots])[serves].sum())
        c.estimate[slots], c.load[slots], c.capacity[slots], c.effective[slots] = estimate, load, capacity, effective
        is_full, is_capped = estimate + 0.5 > hard_limit, load + 1.0 > effective + _ROUNDING
        flipped = int(np.count_nonzero((is_full != c.is_full[slots]) | (is_capped != c.is_capped[slots])))
        if flipped:
            c.is_full[slots], c.is_capped[slots] = is_full, is_capped
            self.flips += flipped

    def _trusted(self, load: Floats, capacity: Floats, age_s: Floats) -> tuple[Floats, Floats]:
        """What was not heard of for three intervals fades to the fleet's mean fullness and a deviation, wholly at ten."""
        interval_s = self.rule.report_interval_s
        fading = np.clip((age_s / interval_s - 3.0) / 7.0, 0.0, 1.0)
        if not fading.any():
            return load, capacity
        c = self._columns
        fresh = c.used & (c.capacity > 0.0)
        fullness = c.load[fresh] / c.capacity[fresh] if fresh.any() else np.array([1.0])
        usual = float(fullness.mean() + fullness.std())
        return (1.0 - fading) * load + fading * np.maximum(load, usual * capacity), capacity

    def _unknown_utilisation(self) -> float:
        """For those whose own figure is unknown: the others' mean and one deviation; without others, the target, which gives
        no room. Unknown is not idle."""
        known = self._columns.utilisation[self._columns.used]
        known = known[~np.isnan(known)]
        if not known.size:
            return self.rule.capacity.target_utilisation
        return float(known.mean() + known.std())
