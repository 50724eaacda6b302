"""N simultaneous starts against a limit of K: from several balancers and from direct callers, over real gRPC and WebSocket."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest

from balancer.placement.reservation import Admitted, Door, NotAdmitted, Reservations
from balancer.placement.ticket_sealer import TicketSealer
from balancer.routing.request import PlacementRequest
from runtime.primitives.reasons import RefusalReason
from tests.balancer.support.running import Running, running
from tests.conformance.callers import Refused
from tests.conformance.wires import WIRES
from tests.support.local_runtime import DESK, LocalRuntime, local_runtime, until

pytestmark = pytest.mark.anyio

_LIMIT = 10
_BALANCERS = 3
_RESERVED = 10
"""By each balancer; all of them together with the direct callers are N."""
_DIRECT = 3
"""By each wire."""
_STARTS = _BALANCERS * _RESERVED + len(WIRES) * _DIRECT
_RUNTIME = "raced"


@dataclass
class Race:
    """`admitted` and `refused` count what the callers were told."""

    local: LocalRuntime
    balancers: list[Running]
    admitted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    most_held: int = 0

    @property
    def decided(self) -> int:
        return self.admitted + self.refused.total()

    def look(self) -> None:
        self.most_held = max(self.most_held, self.local.ledger.active + self.local.ledger.reserved)

    async def reserve(self, balancer: Running, session_id: str, start: anyio.Event) -> None:
        fleet = balancer.balancer.fleet
        reservations = Reservations(
            fleet,
            balancer.balancer.channels,
            balancer.balancer.clock,
            timeout_s=10.0,
            sealer=TicketSealer(balancer.balancer.registry.ticket_keys, are_told=True),
        )
        await start.wait()
        opened = fleet.open_placement(_RUNTIME, 0)
        assert opened is not None
        request = PlacementRequest(session_id=session_id, agent=DESK, epoch=1)
        answer = await reservations.reserve(*opened, request, Door.ASSIGN, fair_share_per_s=0.0, timeout_s=10.0)
        self.look()
        match answer:
            case Admitted():
                self.admitted += 1
            case NotAdmitted(reason=reason):
                self.refused[reason] += 1
            case _:
                pytest.fail(f"no session is there twice: {answer}")

    async def call(self, wire: str, session_id: str, start: anyio.Event, over: anyio.Event) -> None:
        await start.wait()
        try:
            async with WIRES[wire](self.local, session_id=session_id):
                self.look()
                self.admitted += 1
                await over.wait()
        except Refused as refusal:
            self.look()
            self.refused[refusal.reason] += 1

    async def run(self) -> None:
        """All at once; those that got a place keep it until the last has been told."""
        start, over = anyio.Event(), anyio.Event()
        async with anyio.create_task_group() as group:
            for number in range(_RESERVED):
                for index, balancer in enumerate(self.balancers):
                    group.start_soon(self.reserve, balancer, f"reserved-{index}-{number}", start)
            for number in range(_DIRECT):
                for wire in WIRES:
                    group.start_soon(self.call, wire, f"direct-{wire}-{number}", start, over)
            await anyio.wait_all_tasks_blocked()
            start.set()
            await until(lambda: self.decided == _STARTS)
            self.look()
            over.set()


@asynccontextmanager
async def race(inflow_depth: int, report_interval_ms: int) -> AsyncIterator[Race]:
    async with AsyncExitStack() as stack:
        balancers = [
            await stack.enter_async_context(running(balancer_id=f"b{index}", report_interval_ms=report_interval_ms))
            for index in range(_BALANCERS)
        ]
        local = await stack.enter_async_context(
            local_runtime(
                balancers=tuple(each.control for each in balancers),
                runtime_id=_RUNTIME,
                hard_limit=_LIMIT,
                inflow_depth=inflow_depth,
                inflow_floor_per_s=0.001,  # nothing drips in while they race
            )
        )
        for each in balancers:
            view = each.balancer.fleet.view
            await until(lambda view=view: len(view) == 1 and view.row(0).arrived_ns is not None)  # type: ignore[misc]  # bound now
        yield Race(local, balancers)


@pytest.mark.parametrize("report_interval_ms", [100, 2_000])
@pytest.mark.parametrize("inflow_depth", [4, _LIMIT + 2, _STARTS + 1])
async def test_no_more_than_the_limit_is_admitted(inflow_depth: int, report_interval_ms: int) -> None:
    async with race(inflow_depth, report_interval_ms) as ran:
        await ran.run()
        assert ran.most_held <= _LIMIT
        assert ran.admitted == min(_LIMIT, inflow_depth)
        assert ran.admitted + ran.refused.total() == _STARTS
        expected = RefusalReason.LIMIT if inflow_depth > _LIMIT else RefusalReason.INFLOW
        assert dict(ran.refused) == {expected: _STARTS - ran.admitted}
        assert dict(ran.local.ledger.totals.refused) == dict(ran.refused)
