"""News of runtimes' loads, as arrays: one report from the wire, or a thousand from the simulator, by the same door."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from runtime.primitives.load_snapshot import LoadSnapshot

__all__ = ["Reports"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reports:
    """Reports of distinct runtimes that arrived at one instant; all arrays of equal length.

    `utilisation` NaN: unknown. `ended_total`: of every reason, with moved_out and lost. Only newer ones may be given.
    """

    slots: NDArray[np.intp]
    active: Floats
    reserved: Floats
    hard_limit: Floats
    utilisation: Floats
    started_total: Floats
    ended_total: Floats
    startup_ms: Floats
    queue_length: Floats | None = None
    gpu_memory_ratio: Floats | None = None
    kv_cache_ratio: Floats | None = None
    context_window: Floats | None = None

    def only(self, which: NDArray[np.bool_]) -> Reports:
        """Those that `which` marks."""
        return Reports(
            self.slots[which],
            self.active[which],
            self.reserved[which],
            self.hard_limit[which],
            self.utilisation[which],
            self.started_total[which],
            self.ended_total[which],
            self.startup_ms[which],
            *(None if each is None else each[which] for each in self._others()),
        )

    def extras(self) -> Iterator[tuple[str, Floats]]:
        """What not every report has, by the column's name."""
        for name in ("queue_length", "gpu_memory_ratio", "kv_cache_ratio", "context_window"):
            values = getattr(self, name)
            if values is not None:
                yield name, values

    def _others(self) -> tuple[Floats | None, ...]:
        return self.queue_length, self.gpu_memory_ratio, self.kv_cache_ratio, self.context_window

    @classmethod
    def of(cls, slot: int, snapshot: LoadSnapshot, utilisation: float | None) -> Self:
        """One trusted report."""
        totals = snapshot.totals

        def one(value: float) -> Floats:
            return np.array([value], np.float64)

        return cls(
            slots=np.array([slot], np.intp),
            active=one(snapshot.active),
            reserved=one(snapshot.reserved),
            hard_limit=one(snapshot.hard_limit),
            utilisation=one(math.nan if utilisation is None else utilisation),
            started_total=one(totals.started + totals.moved_in),
            ended_total=one(sum(totals.ended.values()) + totals.moved_out + totals.lost),
            startup_ms=one(snapshot.startup_p99_ms),
            queue_length=one(snapshot.queue_length),
            gpu_memory_ratio=one(snapshot.gpu_memory_ratio),
            kv_cache_ratio=one(snapshot.kv_cache_ratio),
            context_window=one(snapshot.context_window_remaining),
        )
