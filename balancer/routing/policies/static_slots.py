"""Drawn in proportion to the free slots below the configured limit: a fixed number a runtime, whatever the sessions cost."""

from __future__ import annotations

import numpy as np

from balancer.routing.draw import by_weight
from balancer.routing.policy import Choice, Question
from runtime.primitives.rng import Rng

__all__ = ["StaticSlots"]


class StaticSlots:
    name = "static_slots"
    claim = "drawn by its free slots"
    uses_capacity = False

    def order(self, question: Question, rng: Rng) -> list[Choice]:
        columns, kept = question.view.columns, question.pool.kept
        free = columns.hard_limit[kept] - columns.active[kept] - columns.reserved[kept] - columns.in_flight[kept]
        return by_weight(np.maximum(free, 0.0), question, rng)
