"""Signs of life that the calls of one runtime share: who of them was heard speaks for all, and few are asked.

A runtime that is stopped or cut off is silent on every connection, and one that lives answers on any. So idle calls cost a few
pings a second for each runtime, and not one each. One connection that is dead while others live is found by its own, slower watch
(balancer/front/leg_watch.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

__all__ = ["Pulses"]

_PROBES: Final = 2
"""A look and runtime: the first may have gone to a connection that is dead alone."""

Life = tuple[str, int]
"""Runtime id and incarnation."""


class Pulses:
    """Pure. `look` begins each look at all calls."""

    __slots__ = ("_alive", "_probed")

    def __init__(self) -> None:
        self._alive: frozenset[Life] = frozenset()
        self._probed: Counter[Life] = Counter()

    def look(self, heard: Iterable[Life]) -> None:
        """`heard`: the runtimes of which any call has heard something since the last look."""
        self._alive = frozenset(heard)
        self._probed.clear()

    def is_alive(self, life: Life) -> bool:
        return life in self._alive

    def may_probe(self, life: Life) -> bool:
        return self._probed[life] < _PROBES

    def probed(self, life: Life) -> None:
        self._probed[life] += 1
