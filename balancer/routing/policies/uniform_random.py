"""Any runtime that the filters left, all equally likely. Its name in settings is `random`."""

from __future__ import annotations

from balancer.routing.draw import draw_distinct
from balancer.routing.policy import Choice, Question
from runtime.primitives.rng import Rng

__all__ = ["UniformRandom"]


class UniformRandom:
    name = "random"
    claim = "drawn by chance"
    uses_capacity = False

    def order(self, question: Question, rng: Rng) -> list[Choice]:
        return [Choice(slot, 0.0) for slot in draw_distinct(question.pool.kept, question.count, rng)]
