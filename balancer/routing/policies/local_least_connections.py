"""Fewest of this balancer's own streams for its capacity first, as nginx and HAProxy count: blind to what others placed."""

from __future__ import annotations

import numpy as np

from balancer.routing.draw import lowest
from balancer.routing.policy import Choice, Question
from runtime.primitives.rng import Rng

__all__ = ["LocalLeastConnections"]


class LocalLeastConnections:
    name = "local_least_connections"
    claim = "fewest own streams"
    uses_capacity = False

    def order(self, question: Question, rng: Rng) -> list[Choice]:
        columns, kept = question.view.columns, question.pool.kept
        return lowest(columns.own[kept] / np.maximum(columns.hard_limit[kept], 1.0), question, rng)
