"""R1's headroom as a weight: effective capacity less the sessions."""

from __future__ import annotations

import numpy as np

from balancer.routing.draw import by_weight
from balancer.routing.policy import Choice, Question
from runtime.primitives.rng import Rng

__all__ = ["Headroom"]


class Headroom:
    name = "headroom"
    claim = "drawn by its headroom"
    uses_capacity = False

    def order(self, question: Question, rng: Rng) -> list[Choice]:
        columns, kept = question.view.columns, question.pool.kept
        return by_weight(np.maximum(columns.headroom_r1[kept], 0.0), question, rng)
