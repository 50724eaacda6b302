"""Prequal (Wydra and others, 2024): lowest latency among the cold, else fewest in flight.

A runtime is hot when its sessions are above the 0.84 quantile of the pool of probes. The pool holds what was heard within the
last second (reports and reservation answers, at most 16); a probe is used once. Where nothing is fresh, 16 runtimes are drawn
and their last reports stand in for probes: a reservation is our only probe, and it comes with the choice.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from balancer.routing.draw import draw_distinct
from balancer.routing.policy import Choice, Question
from runtime.primitives.clock import NS_PER_S
from runtime.primitives.rng import Rng

__all__ = ["Prequal"]

_POOL: Final = 16
_LOOKED_AT: Final = 4 * _POOL
_AGE_NS: Final = NS_PER_S
_HOT: Final = 0.84
_REMEMBERED: Final = 4096


class Prequal:
    name = "prequal"
    claim = "fastest of the cold"
    uses_capacity = False

    def __init__(self) -> None:
        self._used: dict[int, int] = {}
        """When the probe was heard that was used last, by slot."""

    def order(self, question: Question, rng: Rng) -> list[Choice]:
        columns, kept = question.view.columns, question.pool.kept
        arrived_ns = columns.arrived_ns[kept]
        fresh = np.flatnonzero(arrived_ns >= question.now_ns - _AGE_NS)
        if fresh.shape[0] > _LOOKED_AT:
            fresh = fresh[np.argpartition(-arrived_ns[fresh], _LOOKED_AT)[:_LOOKED_AT]]
        newest = kept[fresh[np.argsort(-arrived_ns[fresh], kind="stable")]].tolist()
        probes = [slot for slot in newest if self._used.get(slot) != columns.arrived_ns.item(slot)][:_POOL]
        if len(probes) < question.count:
            probes += [slot for slot in draw_distinct(kept, _POOL, rng) if slot not in probes]
        held = np.array([columns.active.item(slot) + columns.in_flight.item(slot) for slot in probes])
        hot = float(np.quantile(held, _HOT))

        def rank(place: int) -> tuple[bool, float, float]:
            is_hot = bool(held[place] > hot)
            return is_hot, float(held[place]) if is_hot else columns.startup_ms.item(probes[place]), rng.random()

        ranked = sorted((rank(place), probes[place]) for place in range(len(probes)))
        chosen = ranked[0][1]
        if len(self._used) >= _REMEMBERED:
            self._used.clear()
        self._used[chosen] = columns.arrived_ns.item(chosen)
        return [Choice(slot, float(key[1])) for key, slot in ranked[: question.count]]
