"""Which calls a drain moves when, and whole drains on loopback."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass

import anyio
import pytest
from websockets.asyncio.client import ClientConnection, connect

from balancer.continuity.move_table import MoveState
from balancer.front.drains import DrainRule, Drains, Movable
from protos.switchboard.v1 import placement_pb2
from runtime.primitives.clock import NS_PER_MS, NS_PER_S
from tests.balancer.support.aside_runtime import AsideRuntime
from tests.balancer.support.fake_runtime import FakeRuntime
from tests.balancer.support.running import Running, fleet_of, until

RULE = DrainRule(at_a_time=3, wait_for_quiet_ms=2000, again_after_ms=500)


@dataclass
class Call:
    is_quiet: bool = True
    can_move: bool = True
    state: MoveState = MoveState.SERVING
    wanted: int = 0

    def want(self) -> bool:
        self.wanted += 1
        self.state, self.can_move = MoveState.SEEKING, False
        return True

    def stay(self) -> None:
        self.state, self.can_move = MoveState.SERVING, True


def movable(calls: list[Call], runtime: str = "r1") -> list[Movable]:
    return [Movable(f"c{number}", (runtime, 1), call) for number, call in enumerate(calls)]


def leaving(*runtimes: str) -> Drains:
    return Drains(RULE, lambda runtime_id, _incarnation: runtime_id in runtimes)


def test_nothing_moves_from_a_runtime_that_stays() -> None:
    calls = [Call()]
    leaving("r2").tend(movable(calls), 0)
    assert calls[0].wanted == 0


def test_quiet_calls_move_first_and_a_few_at_a_time() -> None:
    calls = [Call(is_quiet=number % 2 == 1) for number in range(8)]
    drains = leaving("r1")
    drains.tend(movable(calls), 0)
    assert [call.wanted for call in calls] == [0, 1, 0, 1, 0, 1, 0, 0]
    drains.tend(movable(calls), 1)
    assert sum(call.wanted for call in calls) == RULE.at_a_time
    left = [call for call in calls if call is not calls[1]]  # one has gone
    drains.tend(movable(left), 2)
    assert [call.wanted for call in calls] == [0, 1, 0, 1, 0, 1, 0, 1]


def test_a_call_in_which_somebody_speaks_moves_as_soon_as_nobody_does_or_after_a_while() -> None:
    speaking, pausing = Call(is_quiet=False), Call(is_quiet=False)
    drains = leaving("r1")
    drains.tend(movable([speaking, pausing]), 0)
    pausing.is_quiet = True
    drains.tend(movable([speaking, pausing]), NS_PER_S)
    assert (speaking.wanted, pausing.wanted) == (0, 1)
    drains.tend(movable([speaking, pausing]), 2 * NS_PER_S - 1)
    assert speaking.wanted == 0
    drains.tend(movable([speaking, pausing]), 2 * NS_PER_S)
    assert speaking.wanted == 1


def test_a_move_that_came_to_nothing_is_tried_again_a_little_later() -> None:
    call = Call()
    drains = leaving("r1")
    drains.tend(movable([call]), 0)
    call.stay()
    drains.tend(movable([call]), 500 * NS_PER_MS - 1)
    assert call.wanted == 1
    drains.tend(movable([call]), 500 * NS_PER_MS)
    assert call.wanted == 2


def test_what_cannot_move_is_left_alone() -> None:
    calls = [Call(can_move=False), Call()]
    leaving("r1").tend(movable(calls), 0)
    assert [call.wanted for call in calls] == [0, 1]


# Whole drains


async def open_calls(service: Running, stack: AsyncExitStack, count: int) -> list[ClientConnection]:
    clients = []
    for number in range(count):
        client = await stack.enter_async_context(connect(f"{service.url}?session_id=c{number}"))
        await client.send("hello")
        with anyio.fail_after(10):
            assert await client.recv() == "1:hello"
        clients.append(client)
    return clients


async def all_still_served(clients: list[ClientConnection]) -> None:
    for client in clients:
        await client.send("more")
        with anyio.fail_after(10):
            assert await client.recv() == "2:more"


@pytest.mark.anyio
async def test_all_calls_of_a_runtime_that_leaves_go_on_elsewhere() -> None:  # requirement C1, bug R33, bug R34
    leaver, *others = runtimes = [AsideRuntime(f"r{number}", hard_limit=100) for number in range(3)]
    for each in others:
        each.refuse_with = placement_pb2.REFUSAL_REASON_LIMIT
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(fleet_of(*runtimes, cold_allowance=100))
        clients = await open_calls(service, stack, 20)
        for each in others:
            each.refuse_with = 0
        assert len(leaver.live) == 20
        await leaver.begin_to_drain()
        await until(lambda: leaver.live == {}, within_s=10)
        await all_still_served(clients)
        books = service.balancer.fleet.books
        await until(lambda: (books.totals.moved_out, books.totals.moved_in, books.active) == (20, 20, 20))
        assert service.balancer.front.calls.move_counts() == {("planned", "moved"): 20}
        document = service.balancer.documents.whole_fleet(service.balancer.clock.now_ns())
        assert document["moves"] == [{"kind": "planned", "result": "moved", "count": 20}]


@pytest.mark.anyio
async def test_calls_stay_where_nobody_else_has_room_and_move_when_somebody_has() -> None:
    leaver, other = AsideRuntime("r1"), AsideRuntime("r2")
    other.refuse_with = placement_pb2.REFUSAL_REASON_LIMIT
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(fleet_of(leaver, other))
        clients = await open_calls(service, stack, 3)
        await leaver.begin_to_drain()
        counts = service.balancer.front.calls.move_counts
        await until(lambda: counts().get(("planned", "stayed"), 0) >= 3)
        assert len(leaver.live) == 3
        other.refuse_with = 0
        await until(lambda: len(other.live) == 3, within_s=10)
        await all_still_served(clients)


@pytest.mark.anyio
async def test_a_runtime_is_asked_to_leave_once_and_only_if_it_is_there() -> None:
    runtime = FakeRuntime("r1")
    async with fleet_of(runtime) as service:
        registry = service.balancer.registry
        assert not registry.ask_to_drain("r2")
        assert registry.ask_to_drain("r1")
        assert registry.ask_to_drain("r1")
        await until(lambda: runtime.asked_to_drain == 1)
        await until(lambda: service.balancer.fleet.membership.get("r1") is not None)
