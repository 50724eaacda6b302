"""gRPC's client-side weighted round robin (proposal A58), on session rates: weight = rate / utilisation.

Constants as documented there: a weight counts from 10 s after the first report that gave one (blackout), is forgotten 180 s
after the last (expiration), and is worked out once a second; unknown weights are the mean of the known; all are clipped to
0.01-10 times the mean. Runtimes take turns by stride: the next is the one whose virtual deadline comes first, and each turn
moves its deadline by 1 / weight.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from balancer.routing.policy import Choice, Question
from runtime.primitives.clock import NS_PER_S
from runtime.primitives.rng import Rng

__all__ = ["WeightedRoundRobin"]

_BLACKOUT_NS: Final = 10 * NS_PER_S
_EXPIRATION_NS: Final = 180 * NS_PER_S
_UPDATE_NS: Final = NS_PER_S
_CLIP: Final = (0.01, 10.0)
_NEVER_NS: Final = -(2**62)


class WeightedRoundRobin:
    """State per slot; a slot that another runtime took over starts as unknown with its first report."""

    name = "weighted_round_robin"
    claim = "next by weighted turn"
    uses_capacity = False

    def __init__(self) -> None:
        self._weights: NDArray[np.float64] = np.ones(0)
        self._deadlines: NDArray[np.float64] = np.zeros(0)
        self._since_ns: NDArray[np.int64] = np.zeros(0, np.int64)
        self._owners: list[tuple[str, int] | None] = []
        self._updated_ns = _NEVER_NS
        self._membership = -1

    def order(self, question: Question, rng: Rng) -> list[Choice]:
        self._follow(question, rng)
        if question.now_ns - self._updated_ns >= _UPDATE_NS:
            self._update(question)
        kept = question.pool.kept
        deadlines = self._deadlines[kept]
        first = np.argpartition(deadlines, min(question.count, kept.shape[0] - 1))[: question.count]
        first = first[deadlines[first].argsort(kind="stable")]
        choices = [Choice(int(kept[place]), float(deadlines[place])) for place in first]
        chosen = choices[0].slot
        self._deadlines[chosen] += 1.0 / self._weights[chosen]
        return choices

    def _follow(self, question: Question, rng: Rng) -> None:
        """New runtimes, and new lives of old ones, begin at a random place of the present round."""
        view = question.view
        size = view.columns.size
        if size > len(self._owners):
            more = size - len(self._owners)
            self._weights = np.concatenate((self._weights, np.ones(more)))
            self._deadlines = np.concatenate((self._deadlines, np.zeros(more)))
            self._since_ns = np.concatenate((self._since_ns, np.full(more, _NEVER_NS, np.int64)))
            self._owners += [None] * more
        if view.membership == self._membership:
            return
        self._membership = view.membership
        kept = question.pool.kept
        known = [int(slot) for slot in kept if self._owners[slot] is not None]
        present = float(self._deadlines[known].min()) if known else 0.0
        for slot in view.slots():
            facts = view.facts(slot)
            owner = (facts.runtime_id, facts.incarnation)
            if self._owners[slot] != owner:
                self._owners[slot] = owner
                self._since_ns[slot] = _NEVER_NS
                self._deadlines[slot] = present + rng.random()

    def _update(self, question: Question) -> None:
        self._updated_ns = now_ns = question.now_ns
        columns = question.view.columns
        size = len(self._owners)
        usable = ~np.isnan(columns.utilisation[:size]) & (columns.utilisation[:size] > 0.0) & (columns.reported[:size] > 0.0)
        fresh = now_ns - np.maximum(columns.reported_ns[:size], now_ns - 2 * _EXPIRATION_NS) < _EXPIRATION_NS
        usable &= fresh & columns.used[:size]
        self._since_ns = np.where(usable, np.where(self._since_ns == _NEVER_NS, now_ns, self._since_ns), self._since_ns)
        self._since_ns[~fresh] = _NEVER_NS
        known = usable & (now_ns - np.maximum(self._since_ns, now_ns - 2 * _BLACKOUT_NS) >= _BLACKOUT_NS)
        weights = np.ones(size)
        if known.any():
            raw = columns.reported[:size] / np.where(known, columns.utilisation[:size], 1.0)
            mean = float(raw[known].mean())
            weights = np.clip(np.where(known, raw / mean, 1.0), *_CLIP)
        self._weights = weights
