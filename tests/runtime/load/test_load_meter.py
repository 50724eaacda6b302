"""One snapshot: all fields at one instant, numbers that agree with the ledger, a sequence that grows."""

from __future__ import annotations

import itertools

import anyio
import pytest

from runtime.load.cpu_meter import CpuMeter
from runtime.load.load_meter import LoadMeter, RuntimeFacts
from runtime.primitives.ids import Epoch, RuntimeId, SessionId
from runtime.primitives.load_snapshot import CostClass, RuntimeState
from runtime.primitives.reasons import EndReason
from runtime.session.ledger import Ledger, LegEvent
from runtime.session.settlement import PlacementRef, Settlements
from tests.support.clocks import ManualClock

pytestmark = pytest.mark.anyio
_FACTS = RuntimeFacts(RuntimeId("r"), 7, 9, frozenset({"desk"}), frozenset({"tools"}), "eu", "1.2", CostClass.SPOT)


class _Deaf:
    def leg_changed(self, event: LegEvent) -> None: ...


class _Bench:
    def __init__(self) -> None:
        tickets = itertools.count()
        self.clock = ManualClock()
        self.ledger = Ledger(_Deaf(), lambda: str(next(tickets)), 10**10)
        self.settlements = Settlements()
        self.state = RuntimeState.READY
        self.used_ns = 0
        cpu = CpuMeter(lambda: self.used_ns, 1.0, 2.0)
        self.meter = LoadMeter(_FACTS, self.ledger, self.settlements, cpu, self.clock, lambda: self.state, lambda: 3)


async def test_a_snapshot_holds_what_the_ledger_holds() -> None:  # requirement S2
    bench = _Bench()
    ledger, now = bench.ledger, bench.clock.now_ns()
    legs = [ledger.reserve(SessionId(f"s{n}"), Epoch(1), lease_ns=10**9, now_ns=now) for n in range(4)]
    for leg in legs[:3]:
        ledger.attach(leg.ticket, now)
        ledger.start(leg, now)
    legs[0].is_speaking = True
    ledger.end(legs[2], EndReason.IDLE_TIMEOUT)
    bench.settlements.settle(PlacementRef("b", 1, 1))
    taken = bench.meter.snapshot()
    assert (taken.active, taken.reserved, taken.speaking, taken.idle) == (2, 1, 1, 1)
    assert taken.totals.active == taken.active
    assert dict(taken.totals.ended) == {"idle_timeout": 1}
    assert taken.ledger_version == 4
    assert (taken.runtime_id, taken.incarnation, taken.hard_limit, taken.queue_length) == ("r", 7, 9, 3)
    assert taken.admitted_upto[0].placement_number == 1
    assert taken.state is RuntimeState.READY
    assert taken.memory_bytes > 0
    assert bench.meter.snapshot().sequence == taken.sequence + 1


async def test_startup_times_are_of_the_last_minute() -> None:
    bench = _Bench()
    for milliseconds in (5.0, 7.0):
        bench.meter.session_started(milliseconds)
    bench.meter.audio_was_late()
    assert bench.meter.snapshot().startup_p99_ms == 7.0
    assert bench.meter.snapshot().missed_audio_deadlines == 1
    bench.clock.advance_ms(61_000)
    assert bench.meter.snapshot().startup_p99_ms == 0.0


async def test_it_measures_while_it_runs() -> None:
    bench = _Bench()
    bench.meter.start_window()
    async with anyio.create_task_group() as group:
        group.start_soon(bench.meter.run)
        await anyio.wait_all_tasks_blocked()
        assert bench.meter.saturation().loop_lag_ms == 0.0
        group.cancel_scope.cancel()
