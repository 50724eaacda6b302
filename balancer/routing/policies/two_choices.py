"""The less loaded of two drawn by chance, by what is estimated of both."""

from __future__ import annotations

from balancer.routing.draw import draw_distinct
from balancer.routing.policy import Choice, Question
from runtime.primitives.rng import Rng

__all__ = ["TwoChoices"]


class TwoChoices:
    """Estimates are the last reports with our own placements since."""

    name = "two_choices"
    claim = "less loaded of two drawn"
    uses_capacity = False

    def order(self, question: Question, rng: Rng) -> list[Choice]:
        columns = question.view.columns
        drawn = draw_distinct(question.pool.kept, max(2, question.count), rng)
        choices = [
            Choice(slot, (columns.active.item(slot) + columns.in_flight.item(slot)) / max(columns.hard_limit.item(slot), 1.0))
            for slot in drawn
        ]
        first = min(choices[:2], key=lambda each: each.score)
        return [first, *(each for each in choices if each is not first)][: question.count]
