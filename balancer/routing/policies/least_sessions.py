"""Fewest reported active sessions first, in-flight placements and capacity unseen: the naive rival, for comparison."""

from __future__ import annotations

from balancer.routing.draw import lowest
from balancer.routing.policy import Choice, Question
from runtime.primitives.rng import Rng

__all__ = ["LeastSessions"]


class LeastSessions:
    name = "least_sessions"
    claim = "fewest reported sessions"
    uses_capacity = False

    def order(self, question: Question, rng: Rng) -> list[Choice]:
        return lowest(question.view.columns.reported[question.pool.kept], question, rng)
