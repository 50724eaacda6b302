"""R1's effective capacity as a weight: for comparison. It contains the sessions, so it sends more to the fuller runtime."""

from __future__ import annotations

import numpy as np

from balancer.routing.draw import by_weight
from balancer.routing.policy import Choice, Question
from runtime.primitives.rng import Rng

__all__ = ["EffectiveCapacity"]


class EffectiveCapacity:
    name = "effective_capacity"
    claim = "drawn by its effective capacity"
    uses_capacity = False

    def order(self, question: Question, rng: Rng) -> list[Choice]:
        columns, kept = question.view.columns, question.pool.kept
        return by_weight(np.maximum(columns.headroom_r1[kept] + columns.estimate[kept], 0.0), question, rng)
