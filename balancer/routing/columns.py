"""The fleet's facts as arrays: one column a fact, one slot a runtime. A slot keeps its place as long as its runtime stays."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["NEVER_NS", "Columns"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Times = NDArray[np.int64]
NEVER_NS: Final = -(2**62)

_FLOATS: Final = (
    "active",
    "reserved",
    "in_flight",
    "hard_limit",
    "effective",
    "utilisation",
    "estimate",
    "load",
    "capacity",
    "headroom_r1",
    "base",
    "known",
    "ended",
    "others",
    "own",
    "own_waiting",
    "own_placed",
    "started_total",
    "ended_total",
    "startup_ms",
    "queue_length",
    "gpu_memory_ratio",
    "kv_cache_ratio",
    "context_window",
    "cost",
    "overload",
    "reported",
)
_BOOLS: Final = ("used", "ready", "eligible", "is_full", "is_capped")


class Columns:
    """Arrays of `size` slots. A decision reads them; only the view writes. Unknown numbers are NaN.

    active, reserved, arrived_ns      of the last report or answer; reported, reported_ns of the last report alone
    base, known, ended, others        the parts of the estimate (capacity/session_estimate.py)
    in_flight                         our own placements that the base does not contain
    own, own_waiting                  our streams there; places given to us whose start no report has shown yet
    own_placed                        placements of ours ever begun here, but those refused or given back
    estimate                          sessions now
    load, capacity                    the estimate, and what fills the runtime to the target, in sessions of mean cost
    effective                         how many it may hold just now; headroom_r1: R1's E less the estimate
    is_full, is_capped                at the hard limit; no whole session fits below `effective`
    closed_until_ns                   it refused for inflow and said when to come again
    overload                          how many priorities are kept off, lowest first
    cost                              the price class's factor
    """

    active: Floats
    reserved: Floats
    in_flight: Floats
    hard_limit: Floats
    effective: Floats
    utilisation: Floats
    estimate: Floats
    load: Floats
    capacity: Floats
    headroom_r1: Floats
    base: Floats
    known: Floats
    ended: Floats
    others: Floats
    own: Floats
    own_waiting: Floats
    own_placed: Floats
    started_total: Floats
    ended_total: Floats
    startup_ms: Floats
    queue_length: Floats
    gpu_memory_ratio: Floats
    kv_cache_ratio: Floats
    context_window: Floats
    cost: Floats
    overload: Floats
    reported: Floats
    used: Bools
    ready: Bools
    eligible: Bools
    is_full: Bools
    is_capped: Bools
    arrived_ns: Times
    reported_ns: Times
    closed_until_ns: Times

    def __init__(self, size: int) -> None:
        self.size = size
        self._allot(
            np.zeros((len(_FLOATS), size)), np.zeros((len(_BOOLS), size), np.bool_), np.full((3, size), NEVER_NS, np.int64)
        )

    def _allot(self, floats: Floats, bools: Bools, times: Times) -> None:
        self._floats, self._bools, self._times = floats, bools, times
        self.arrived_ns, self.reported_ns, self.closed_until_ns = times
        for place, name in enumerate(_FLOATS):
            setattr(self, name, floats[place])
        for place, name in enumerate(_BOOLS):
            setattr(self, name, bools[place])

    def grow(self, size: int) -> None:
        floats, bools, times = _fresh(size)
        floats[:, : self.size], bools[:, : self.size], times[:, : self.size] = self._floats, self._bools, self._times
        self.size = size
        self._allot(floats, bools, times)

    def clear(self, slot: int) -> None:
        self._floats[:, slot] = 0.0
        self._bools[:, slot] = False
        self._times[:, slot] = NEVER_NS
        self.utilisation[slot] = math.nan
        self.gpu_memory_ratio[slot] = self.kv_cache_ratio[slot] = -1.0

    def numbers(self, slot: int) -> list[float]:
        """The first six columns of a slot: active, reserved, in_flight, hard_limit, effective, utilisation."""
        found: list[float] = self._floats[:6, slot].tolist()
        return found


def _fresh(size: int) -> tuple[Floats, Bools, Times]:
    return np.zeros((len(_FLOATS), size)), np.zeros((len(_BOOLS), size), np.bool_), np.full((3, size), NEVER_NS, np.int64)
