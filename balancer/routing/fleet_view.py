"""What the router knows of the fleet, in columns: one row a runtime, one numpy array a fact.

The owner (the live fleet, or a simulator) puts rows and in-flight counts; a decision only reads. Columns make a decision over
a thousand runtimes a dozen vector operations instead of thousands of attribute reads. Rows are unordered: removal moves the
last row into the gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

from balancer.routing.version import Version
from runtime.primitives.load_snapshot import RuntimeState

__all__ = ["NEVER_NS", "Columns", "FleetView", "RuntimeRow"]

Bools = NDArray[np.bool_]
NEVER_NS: Final = -(2**62)
_MASKS_KEPT: Final = 256


@dataclass(frozen=True, slots=True)
class RuntimeRow:
    """One runtime as the router sees it. `active` and `reserved` are its own report's; `in_flight` is ours on top."""

    runtime_id: str
    incarnation: int
    state: RuntimeState = RuntimeState.STARTING
    ineligible: str = ""
    """Why nothing may be placed here whatever the report says (lost stream, silence); empty: nothing against it."""
    arrived_ns: int | None = None
    """Arrival of the latest report on our monotonic clock; None: none yet."""
    active: int = 0
    reserved: int = 0
    in_flight: int = 0
    hard_limit: int = 0
    effective: float = 0.0
    utilisation: float | None = None
    is_overloaded: bool = False
    context_window_remaining: int = 0
    agents: frozenset[str] = frozenset()
    abilities: frozenset[str] = frozenset()
    region: str = ""
    version: Version = ()

    @property
    def estimate(self) -> int:
        return self.active + self.reserved + self.in_flight


@dataclass(frozen=True, slots=True)
class Columns:
    """The rows' facts as arrays of equal length. Views into the owner's memory: read, never keep, never write."""

    ready: Bools
    eligible: Bools
    overloaded: Bools
    arrived_ns: NDArray[np.int64]
    active: NDArray[np.float64]
    estimate: NDArray[np.float64]
    hard_limit: NDArray[np.float64]
    effective: NDArray[np.float64]
    context_window: NDArray[np.int64]


class FleetView:
    """Rows by runtime id, readable as columns."""

    def __init__(self) -> None:
        self._rows: list[RuntimeRow] = []
        self._index: dict[str, int] = {}
        self._memory = _allocate(16)
        self.columns = _slice(self._memory, 0)
        self._masks: dict[Hashable, Bools] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, runtime_id: str) -> bool:
        return runtime_id in self._index

    def row(self, index: int) -> RuntimeRow:
        return self._rows[index]

    def get(self, runtime_id: str) -> RuntimeRow | None:
        index = self._index.get(runtime_id)
        return None if index is None else self._rows[index]

    def rows(self) -> tuple[RuntimeRow, ...]:
        return tuple(self._rows)

    def index_of(self, runtime_id: str) -> int | None:
        return self._index.get(runtime_id)

    def put(self, row: RuntimeRow) -> None:
        """Adds or replaces the row of `row.runtime_id`."""
        index = self._index.get(row.runtime_id)
        if index is None:
            index = len(self._rows)
            if index == self._memory.ready.shape[0]:
                self._memory = _grow(self._memory)
            self._rows.append(row)
            self._index[row.runtime_id] = index
            self.columns = _slice(self._memory, len(self._rows))
            self._masks.clear()
        else:
            old = self._rows[index]
            if (old.agents, old.abilities, old.region, old.version) != (row.agents, row.abilities, row.region, row.version):
                self._masks.clear()
            self._rows[index] = row
        self._write(index, row)

    def remove(self, runtime_id: str) -> None:
        """Forgets a runtime; unknown ids are ignored."""
        index = self._index.pop(runtime_id, None)
        if index is None:
            return
        last = self._rows.pop()
        if index < len(self._rows):
            self._rows[index] = last
            self._index[last.runtime_id] = index
            self._write(index, last)
        self.columns = _slice(self._memory, len(self._rows))
        self._masks.clear()

    def mask(self, key: Hashable, fits: Callable[[RuntimeRow], bool]) -> Bools:
        """The rows whose standing facts fit, remembered under `key` until any row's standing facts change. `fits` is called
        with each row on a miss."""
        found = self._masks.get(key)
        if found is None:
            if len(self._masks) >= _MASKS_KEPT:  # callers choose keys: bounded, and rebuilding is cheap
                self._masks.clear()
            found = np.fromiter((fits(row) for row in self._rows), dtype=np.bool_, count=len(self._rows))
            self._masks[key] = found
        return found

    def _write(self, index: int, row: RuntimeRow) -> None:
        memory = self._memory
        memory.ready[index] = row.state is RuntimeState.READY
        memory.eligible[index] = not row.ineligible
        memory.overloaded[index] = row.is_overloaded
        memory.arrived_ns[index] = NEVER_NS if row.arrived_ns is None else row.arrived_ns
        memory.active[index] = row.active
        memory.estimate[index] = row.estimate
        memory.hard_limit[index] = row.hard_limit
        memory.effective[index] = row.effective if math.isfinite(row.effective) else 0.0
        memory.context_window[index] = row.context_window_remaining


def _allocate(size: int) -> Columns:
    return Columns(
        ready=np.zeros(size, np.bool_),
        eligible=np.zeros(size, np.bool_),
        overloaded=np.zeros(size, np.bool_),
        arrived_ns=np.full(size, NEVER_NS, np.int64),
        active=np.zeros(size),
        estimate=np.zeros(size),
        hard_limit=np.zeros(size),
        effective=np.zeros(size),
        context_window=np.zeros(size, np.int64),
    )


def _grow(old: Columns) -> Columns:
    new = _allocate(2 * old.ready.shape[0])
    for field in fields(Columns):
        source = getattr(old, field.name)
        getattr(new, field.name)[: source.shape[0]] = source
    return new


def _slice(memory: Columns, count: int) -> Columns:
    return Columns(*(getattr(memory, field.name)[:count] for field in fields(Columns)))
