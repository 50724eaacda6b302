"""One runtime's load at one instant: the value that runtimes report and balancers decide on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

__all__ = ["AdmittedUpto", "CostClass", "LegTotals", "LoadSnapshot", "RuntimeState"]


class RuntimeState(StrEnum):
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    OFFLINE = "offline"


class CostClass(StrEnum):
    OWNED = "owned"
    ON_DEMAND = "on_demand"
    SPOT = "spot"


_EMPTY: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AdmittedUpto:
    """Every placement of this balancer life up to `placement_number` is contained in the snapshot."""

    balancer_id: str
    balancer_incarnation: int
    placement_number: int


@dataclass(frozen=True, slots=True)
class LegTotals:
    """Monotone totals of an incarnation. `ended` and `refused` are by the reason's stable name."""

    started: int = 0
    moved_in: int = 0
    moved_out: int = 0
    lost: int = 0
    ended: Mapping[str, int] = field(default_factory=lambda: _EMPTY)
    refused: Mapping[str, int] = field(default_factory=lambda: _EMPTY)

    @property
    def active(self) -> int:
        """The live legs that the totals imply."""
        return self.started + self.moved_in - sum(self.ended.values()) - self.moved_out - self.lost


@dataclass(frozen=True, slots=True)
class LoadSnapshot:
    """All fields at one instant. Units and ranges as in `protos/switchboard/v1/load.proto`."""

    runtime_id: str
    incarnation: int
    sequence: int
    window_start_ns: int
    window_end_ns: int
    ledger_version: int
    active: int
    reserved: int
    hard_limit: int
    totals: LegTotals
    state: RuntimeState
    utilisation: float
    utilisation_fast: float = 0.0
    machine_utilisation: float = -1.0
    speaking: int = 0
    memory_bytes: int = 0
    loop_lag_p99_ms: float = 0.0
    missed_audio_deadlines: int = 0
    startup_p99_ms: float = 0.0
    queue_length: int = 0
    context_window_remaining: int = 0
    gpu_memory_ratio: float = -1.0
    kv_cache_ratio: float = -1.0
    abilities: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()
    region: str = ""
    version: str = ""
    cost_class: CostClass = CostClass.OWNED
    admitted_upto: tuple[AdmittedUpto, ...] = ()

    @property
    def idle(self) -> int:
        return self.active - self.speaking
