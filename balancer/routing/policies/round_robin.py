"""In turn, by slot, whoever the filters left. The turn starts at a random place, so that balancers do not walk in step."""

from __future__ import annotations

from balancer.routing.policy import Choice, Question
from runtime.primitives.rng import Rng

__all__ = ["RoundRobin"]


class RoundRobin:
    """Remembers the slot it gave last: slots are stable while others come and go."""

    name = "round_robin"
    claim = "next in turn"
    uses_capacity = False

    def __init__(self) -> None:
        self._last: int | None = None

    def order(self, question: Question, rng: Rng) -> list[Choice]:
        kept = question.pool.kept
        size = kept.shape[0]
        last = self._last
        start = int(rng.random() * size) if last is None else int(kept.searchsorted(last, "right")) % size
        self._last = int(kept[start])
        return [Choice(int(kept[(start + step) % size]), 0.0) for step in range(min(size, question.count))]
