"""By the session's id on a hash ring, with bounded load: the next clockwise that is not too full for the fleet's mean."""

from __future__ import annotations

from itertools import islice
from typing import Final

from balancer.routing.policies.hash_ring import HashRing
from balancer.routing.policy import Choice, Question
from runtime.primitives.rng import Rng

__all__ = ["VIRTUAL_NODES", "ConsistentHash"]

VIRTUAL_NODES: Final = (200, 1000, 5000)
"""The presets: more nodes, more even shares, longer changes."""
_BOUND: Final = 1.25
"""A runtime takes a session while it is at most a quarter fuller than the fleet (Mirrokni and others, 2016)."""
_LOOKED_AT: Final = 64


class ConsistentHash:
    """The ring holds everybody who is enrolled, eligible or not, so that a flapping runtime moves nobody else's keys."""

    name = "consistent_hash"
    claim = "the session's place on the ring"
    uses_capacity = False

    def __init__(self, virtual_nodes: int = VIRTUAL_NODES[0]) -> None:
        self._ring = HashRing(virtual_nodes)
        self._membership = -1

    def order(self, question: Question, _rng: Rng) -> list[Choice]:
        view, pool = question.view, question.pool
        if view.membership != self._membership:
            self._ring.set({view.facts(slot).runtime_id: slot for slot in view.slots()})
            self._membership = view.membership
        if pool.members is None:
            pool.members = frozenset(pool.kept.tolist())
        columns = view.columns
        bound = _BOUND * (view.load.load_now if view.load.load_now > 0.0 else 0.0)
        fits: list[Choice] = []
        full: list[Choice] = []
        members = (slot for slot in self._ring.walk(question.request.session_id) if slot in pool.members)
        for slot in islice(members, _LOOKED_AT):
            capacity = max(columns.capacity.item(slot), 1.0)
            fullness = columns.load.item(slot) / capacity
            # One session above the bound is no imbalance: a small runtime could never take its first.
            (fits if fullness <= bound + 1.0 / capacity else full).append(Choice(slot, fullness))
            if len(fits) >= question.count:
                break
        full.sort(key=lambda each: each.score)
        return (fits + full)[: question.count]
