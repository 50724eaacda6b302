"""Lowest 95th percentile of start-up over each runtime's last 100 placements; by chance among those with fewer than 50."""

from __future__ import annotations

import numpy as np

from balancer.routing.draw import draw_distinct, lowest
from balancer.routing.policy import Choice, Question
from runtime.primitives.rng import Rng

__all__ = ["ResponseTime"]


class ResponseTime:
    """A runtime that is not known well is tried first: its samples have to come from somewhere."""

    name = "response_time"
    claim = "fastest to start a call"
    uses_capacity = False

    def order(self, question: Question, rng: Rng) -> list[Choice]:
        kept = question.pool.kept
        p95_ms = question.view.response_times.p95_ms[kept]
        unknown = kept[np.isnan(p95_ms)]
        if not unknown.shape[0]:
            return lowest(p95_ms, question, rng)
        chosen = [Choice(slot, 0.0) for slot in draw_distinct(unknown, question.count, rng)]
        if len(chosen) < question.count:
            known = lowest(np.where(np.isnan(p95_ms), np.inf, p95_ms), question, rng)
            taken = {each.slot for each in chosen}
            chosen += [each for each in known if each.slot not in taken]
        return chosen[: question.count]
