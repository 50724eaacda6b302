"""News of runtimes' loads, as arrays: one report from the wire, or a thousand from the simulator, by the same door."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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
    def of(cls, slots: Sequence[int], snapshots: Sequence[LoadSnapshot], utilisations: Sequence[float | None]) -> Self:
        """Trusted reports, one for each slot; their utilisation as it is believed, None where it is unknown."""
        rows = [
            (
                each.active,
                each.reserved,
                each.hard_limit,
                math.nan if utilisation is None else utilisation,
                each.totals.started + each.totals.moved_in,
                sum(each.totals.ended.values()) + each.totals.moved_out + each.totals.lost,
                each.startup_p99_ms,
                each.queue_length,
                each.gpu_memory_ratio,
                each.kv_cache_ratio,
                each.context_window_remaining,
            )
            for each, utilisation in zip(snapshots, utilisations, strict=True)
        ]
        return cls(np.array(slots, np.intp), *np.array(rows, np.float64).T)
