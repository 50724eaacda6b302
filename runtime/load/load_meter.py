"""Takes this runtime's snapshot: one instant, all fields, between two steps of the event loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio

from runtime.load.cpu_meter import CpuMeter
from runtime.load.process_facts import MachineCpu, resident_bytes
from runtime.primitives.clock import NS_PER_MS, NS_PER_S, Clock
from runtime.primitives.ids import RuntimeId
from runtime.primitives.load_snapshot import CostClass, LoadSnapshot, RuntimeState
from runtime.primitives.recent import RecentSamples
from runtime.session.guard import Saturation
from runtime.session.ledger import Ledger
from runtime.session.settlement import Settlements

__all__ = ["LoadMeter", "RuntimeFacts"]

_SAMPLE_S: Final = 0.5
_LAG_PROBE_S: Final = 0.02
_WINDOW_NS: Final = 10 * NS_PER_S


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """What does not change while the process lives."""

    runtime_id: RuntimeId
    incarnation: int
    hard_limit: int
    agents: frozenset[str]
    abilities: frozenset[str]
    region: str
    version: str
    cost_class: CostClass


class LoadMeter:
    """Measures in the background (`run`) and answers snapshots at once."""

    def __init__(
        self,
        facts: RuntimeFacts,
        ledger: Ledger,
        settlements: Settlements,
        cpu: CpuMeter,
        clock: Clock,
        state: Callable[[], RuntimeState],
        waiting_jobs: Callable[[], int],
    ) -> None:
        self._facts = facts
        self._ledger = ledger
        self._settlements = settlements
        self._cpu = cpu
        self._clock = clock
        self._state = state
        self._waiting_jobs = waiting_jobs
        self._machine = MachineCpu()
        self._machine_ratio = -1.0
        self._lag_ms = RecentSamples(_WINDOW_NS)
        self._recent_lag_ms = RecentSamples(2 * NS_PER_S)
        self._startup_ms = RecentSamples(60 * NS_PER_S)
        self._sequence = 0
        self._memory_bytes = resident_bytes()
        self._missed_audio_deadlines = 0

    async def run(self) -> None:
        """Measures as long as the process lives."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._measure_lag)
            group.start_soon(self._measure_cpu)

    def start_window(self) -> None:
        """Forgets what was measured while the models loaded."""
        self._cpu.restart(self._clock.now_ns())

    def audio_was_late(self) -> None:
        self._missed_audio_deadlines += 1

    def session_started(self, startup_ms: float) -> None:
        self._startup_ms.add(startup_ms, self._clock.now_ns())

    def saturation(self) -> Saturation:
        """For the admission guard: lag as nine of ten recent probes had it, so that one late wake-up closes no door."""
        return Saturation(self._cpu.fast, self._recent_lag_ms.quantile(0.9, self._clock.now_ns()) or 0.0)

    def snapshot(self) -> LoadSnapshot:
        """The present load. Never blocks, so nothing changes while it is taken."""
        now_ns = self._clock.now_ns()
        self._sequence += 1
        facts = self._facts
        return LoadSnapshot(
            runtime_id=facts.runtime_id,
            incarnation=facts.incarnation,
            sequence=self._sequence,
            window_start_ns=self._cpu.window_start_ns,
            window_end_ns=now_ns,
            ledger_version=self._ledger.version,
            active=self._ledger.active,
            reserved=self._ledger.reserved,
            hard_limit=facts.hard_limit,
            totals=self._ledger.totals,
            state=self._state(),
            utilisation=self._cpu.utilisation,
            utilisation_fast=self._cpu.fast,
            machine_utilisation=self._machine_ratio,
            speaking=self._ledger.speaking,
            memory_bytes=self._memory_bytes,
            loop_lag_p99_ms=self._lag_p99_ms(),
            missed_audio_deadlines=self._missed_audio_deadlines,
            startup_p99_ms=self._startup_ms.quantile(0.99, now_ns) or 0.0,
            queue_length=self._waiting_jobs(),
            abilities=facts.abilities,
            agents=facts.agents,
            region=facts.region,
            version=facts.version,
            cost_class=facts.cost_class,
            admitted_upto=self._settlements.admitted_upto(),
        )

    def _lag_p99_ms(self) -> float:
        return self._lag_ms.quantile(0.99, self._clock.now_ns()) or 0.0

    async def _measure_lag(self) -> None:
        while True:
            before_ns = self._clock.now_ns()
            await anyio.sleep(_LAG_PROBE_S)
            now_ns = self._clock.now_ns()
            lag_ms = max(0.0, (now_ns - before_ns) / NS_PER_MS - _LAG_PROBE_S * 1000)
            self._lag_ms.add(lag_ms, now_ns)
            self._recent_lag_ms.add(lag_ms, now_ns)

    async def _measure_cpu(self) -> None:
        while True:
            self._cpu.sample(self._clock.now_ns())
            self._machine_ratio = self._machine.busy_ratio()
            self._memory_bytes = resident_bytes()
            await anyio.sleep(_SAMPLE_S)
