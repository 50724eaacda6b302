"""The default policy: fill the emptiest first, by chance in proportion to the room below the common level, and look twice.

The water of the sessions expected within the horizon is poured over the pool (water_level.py); a runtime is drawn in
proportion to its gap. Cheap runtimes are filled higher while there is room (cost.py). Drawing spreads what several balancers do
at once, and what one does between two rebuilds. A reservation's answer carries fresh load: above the level less half the mean
gap the draw was unlucky, and the next candidate is asked too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from balancer.routing.cost import pour_by_price
from balancer.routing.draw import draw_distinct
from balancer.routing.policy import Choice, Question
from runtime.primitives.rng import Rng

__all__ = ["SessionAware"]

_PLAN_NS: Final = 250_000_000
"""A plan's longest life."""
_HALF: Final = 0.5
"""Sessions are whole: one that is placed takes a runtime from load to load + 1, and what is levelled is the middle of that. A
session is much of a small machine, so the small ones would else go furthest beyond the level."""
_SPENT: Final = 0.5
"""Share of the gaps that is placed before a plan is made anew."""
_HEARD: Final = 0.1
"""Share of the runtimes that is heard of before it is."""
_DRAWS: Final = 12


@dataclass(slots=True)
class _Plan:
    cumulative: NDArray[np.float64]
    gaps: NDArray[np.float64]
    fullness: NDArray[np.float64]
    """Load over capacity."""
    total: float
    filled: NDArray[np.float64]
    """What each should be filled to."""
    half_mean_gap: float
    until_ns: int
    news: int
    """`view.load.news` at which it is made anew."""
    left: float
    """Placements until it is made anew."""
    spent: dict[int, int]
    """Placements since it was made, by place."""


class SessionAware:
    name = "session_aware"
    claim = "drawn by its room below the common level"
    uses_capacity = True

    def __init__(self, *, verifies: bool = True) -> None:
        self.verifies = verifies

    def order(self, question: Question, rng: Rng) -> list[Choice]:
        pool, view = question.pool, question.view
        plan = pool.plan
        if type(plan) is not _Plan or question.now_ns > plan.until_ns or view.load.news > plan.news or plan.left <= 0.0:
            plan = pool.plan = self._make(question)
        columns, half = view.columns, plan.half_mean_gap
        choices = []
        places = self._draw(plan, question.count, rng)
        plan.left -= 1.0
        plan.spent[places[0]] = plan.spent.get(places[0], 0) + 1
        for place in places:
            slot = int(pool.kept[place])
            capacity = columns.capacity.item(slot)
            enough = plan.filled.item(place) - half if self.verifies else float("inf")
            choices.append(Choice(slot, columns.load.item(slot) / capacity if capacity else 1.0, enough))
        return choices

    def _make(self, question: Question) -> _Plan:
        view, kept = question.view, question.pool.kept
        columns = view.columns
        capacity = np.maximum(columns.capacity[kept], 1e-6)
        load = columns.load[kept]
        volume = view.load.volume(question.now_ns)
        fleet_load, rule = view.load.load_now, view.load.rule.cost
        filled, gaps = pour_by_price(load + _HALF, capacity, columns.cost[kept], volume, fleet_load, rule)
        filled = filled - _HALF
        total = float(gaps.sum())
        if total <= 1e-9:  # all are at the level: every one that passed the filters is as good
            gaps = np.full(kept.shape[0], 1.0 / kept.shape[0])
            total = 1.0
        with_gap = int(np.count_nonzero(gaps))
        return _Plan(
            cumulative=gaps.cumsum(),
            gaps=gaps,
            fullness=load / capacity,
            total=total,
            filled=filled,
            half_mean_gap=0.5 * total / with_gap,
            until_ns=question.now_ns + _PLAN_NS,
            news=view.load.news + int(_HEARD * kept.shape[0]),
            left=_SPENT * total,
            spent={},
        )

    @staticmethod
    def _draw(plan: _Plan, count: int, rng: Rng) -> list[int]:
        """Distinct places in proportion to their gaps; where few have one, the emptiest others follow."""
        size = plan.gaps.shape[0]
        count = min(count, size)
        places: list[int] = []
        top = plan.cumulative.item(-1)
        for _ in range(_DRAWS):
            place = min(int(plan.cumulative.searchsorted(rng.random() * top, "right")), size - 1)
            spent = plan.spent.get(place)
            if spent is not None and not rng.random() * plan.gaps.item(place) < plan.gaps.item(place) - spent:
                continue  # its gap is filled that far already
            if place not in places:
                places.append(place)
                if len(places) >= count:
                    return places
            if len(places) >= size:
                return places
        # The draws kept hitting the same few: the others follow, the emptiest first, equals by chance.
        fullness = plan.fullness.copy()
        fullness[places] = np.inf
        while len(places) < count:
            equals = np.flatnonzero(fullness == fullness.min())
            found = draw_distinct(equals, count - len(places), rng)
            places += found
            fullness[found] = np.inf
        return places
