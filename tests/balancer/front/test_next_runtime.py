"""Calls whose runtime is lost before it has said anything begin anew with another one, end to end on loopback."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import anyio
import pytest
import websockets
from websockets.asyncio.client import ClientConnection, connect

from balancer.continuity.move_table import MoveState
from protos.switchboard.v1 import continuity_pb2 as pb
from protos.switchboard.v1 import placement_pb2
from tests.balancer.support.aside_runtime import AsideRuntime, Line, agent
from tests.balancer.support.running import Running, fleet_of, until

pytestmark = pytest.mark.anyio

NEW, ADOPTION = placement_pb2.PLACEMENT_KIND_NEW, placement_pb2.PLACEMENT_KIND_ADOPTION
LIMIT = placement_pb2.REFUSAL_REASON_LIMIT
QUICKLY = {"runtime_probe_after_ms": 100, "runtime_suspect_after_ms": 300, "suspect_after_ms": 60_000, "lease_ttl_ms": 180_000}
"""The relay's own watch alone: the fleet hears of it much later."""


class Doomed:
    """Every runtime's agent. The first that a call comes to does `fate` once it has read `after` messages."""

    def __init__(self, after: int = 0, lives: int = 1) -> None:
        self.after = after
        self.lives = lives
        self.legs = 0

    async def fate(self, runtime: AsideRuntime, line: Line) -> None:
        runtime.die()

    async def __call__(self, runtime: AsideRuntime, line: Line) -> None:
        self.legs += 1
        if self.legs > self.lives:
            await agent(runtime, line)
            return
        for _ in range(self.after):
            await line.next()
        await self.fate(runtime, line)


def fleet(talk: Doomed, count: int = 2) -> list[AsideRuntime]:
    return [AsideRuntime(f"r{number}", talk=talk) for number in range(count)]


async def receive(client: ClientConnection, count: int) -> list[str | bytes]:
    with anyio.fail_after(10):
        return [await client.recv() for _ in range(count)]


async def closed(client: ClientConnection) -> tuple[int, str]:
    with anyio.fail_after(10), contextlib.suppress(websockets.ConnectionClosed):
        async for _ in client:
            pass
    assert client.close_code is not None
    return client.close_code, client.close_reason or ""


def moves(service: Running) -> dict[tuple[str, str], float]:
    return dict(service.balancer.front.calls.move_counts())


def kinds(runtimes: Sequence[AsideRuntime]) -> list[tuple[int, int]]:
    """Every reservation of the fleet, as (epoch, kind)."""
    return sorted((each.epoch, each.kind) for runtime in runtimes for each in runtime.reserved)


@pytest.mark.parametrize("after", [0, 1, 2])
async def test_a_runtime_that_is_lost_before_it_said_anything_is_not_missed(after: int) -> None:  # requirement C3
    runtimes = fleet(Doomed(after))
    async with fleet_of(*runtimes) as service:
        async with connect(service.url + "?session_id=c") as client:
            await client.send("one")
            await client.send(["t", "w", "o"])
            assert await receive(client, 2) == ["1:one", "2:two"]
            await client.send("three")
            assert await receive(client, 1) == ["3:three"]
            assert kinds(runtimes) == [(1, NEW), (2, NEW)]
            lines = [line for runtime in runtimes for line in runtime.lines]
            assert [line.heard for line in lines] == [[], []]  # to the second it is a call like any other
            assert moves(service) == {("crash", "moved"): 1}
            books = service.balancer.fleet.books
            await until(lambda: books.active == 1 and books.totals.started == 2)
            assert books.totals.moved_in == 0
            assert books.is_balanced
        await until(lambda: books.active == 0)
        assert books.is_balanced
        await until(lambda: not any(each.tickets for each in runtimes))


async def test_all_that_the_caller_says_while_no_runtime_is_there_is_kept() -> None:
    runtimes = fleet(Doomed(1))
    async with fleet_of(*runtimes) as service, connect(service.url + "?session_id=c") as client:
        for each in runtimes:
            each.refuse_with = LIMIT
        await client.send("one")
        await until(lambda: len(kinds(runtimes)) >= 2)
        assert service.balancer.front.statistics()["immovable"] == 0
        for text in ("two", "x" * 70_000, "four"):
            await client.send(text)
        with anyio.fail_after(5):
            await (await client.ping())
        for each in runtimes:
            each.refuse_with = 0
        assert await receive(client, 4) == ["1:one", "2:two", "3:" + "x" * 70_000, "4:four"]


async def test_a_runtime_that_falls_silent_before_it_said_anything_is_left() -> None:  # requirement C3
    class Stops(Doomed):
        async def fate(self, runtime: AsideRuntime, line: Line) -> None:
            runtime.stop()
            await line.connection.wait_closed()

    runtimes = fleet(Stops(1))
    async with fleet_of(*runtimes, **QUICKLY) as service, connect(service.url + "?session_id=c") as client:
        await client.send("one")
        assert await receive(client, 1) == ["1:one"]
        assert moves(service) == {("silent", "moved"): 1}
        assert kinds(runtimes) == [(1, NEW), (2, NEW)]


async def test_a_checkpoint_of_a_suspected_runtime_ends_the_search_for_a_new_beginning() -> None:
    """The runtime wakes, gets as far as a checkpoint, and is lost then: whoever is next has to go on from that."""

    class WakesAndDies(Doomed):
        async def fate(self, runtime: AsideRuntime, line: Line) -> None:
            runtime.stop()
            with anyio.move_on_after(10):
                await woken.wait()
            runtime.wake()
            await line.checkpoint(["1:one"], 1)
            await line.connection.send("1:one")
            with anyio.move_on_after(10):
                await may_die.wait()
            runtime.die()

    woken, may_die = anyio.Event(), anyio.Event()
    runtimes = fleet(WakesAndDies(1))
    async with fleet_of(*runtimes, **QUICKLY) as service, connect(service.url + "?session_id=c") as client:
        for each in runtimes:
            each.refuse_with = LIMIT
        await client.send("one")
        (relay,) = service.balancer.front.calls.all()
        assert relay.succession is not None
        succession = relay.succession
        await until(lambda: succession.state is MoveState.SUSPECTED)
        woken.set()
        await until(lambda: succession.memory.checkpoint is not None)
        assert succession.state is not MoveState.SUSPECTED  # in the very step: a loss in the next one must find it so
        assert await receive(client, 1) == ["1:one"]
        for each in runtimes:
            each.refuse_with = 0
        may_die.set()
        await client.send("two")
        assert await receive(client, 1) == ["2:two"]
        assert max(kinds(runtimes))[1] == ADOPTION
        assert moves(service) == {("silent", "stayed"): 1, ("crash", "moved"): 1}


async def test_a_first_message_that_takes_runtimes_down_takes_four() -> None:
    runtimes = fleet(Doomed(1, lives=9), count=6)
    async with fleet_of(*runtimes) as service, connect(service.url + "?session_id=c") as client:
        await client.send("poison")
        assert await closed(client) == (1012, "runtime lost")
        assert sum(len(each.lines) for each in runtimes) == 4
        assert service.balancer.front.statistics()["upstream_lost"] == 1


@pytest.mark.parametrize("code", [1001, 1011, 1012, 1013])
async def test_a_close_by_which_the_runtime_leaves_is_not_the_callers(code: int) -> None:
    class Leaves(Doomed):
        async def fate(self, runtime: AsideRuntime, line: Line) -> None:
            await line.connection.close(code, "gone")

    async with fleet_of(*fleet(Leaves(1))) as service, connect(service.url) as client:
        await client.send("one")
        assert await receive(client, 1) == ["1:one"]


@pytest.mark.parametrize("code", [1000, 1002, 1008, 4400])
async def test_a_close_that_turns_the_caller_away_is(code: int) -> None:
    class Refuses(Doomed):
        async def fate(self, runtime: AsideRuntime, line: Line) -> None:
            await line.connection.close(code, "not you")

    runtimes = fleet(Refuses(1))
    async with fleet_of(*runtimes) as service, connect(service.url) as client:
        await client.send("one")
        assert await closed(client) == (code, "not you")
        assert kinds(runtimes) == [(1, NEW)]


@pytest.mark.parametrize("did", ["said", "acted"])
async def test_what_was_said_or_done_without_a_checkpoint_cannot_begin_anew(did: str) -> None:
    class Acts(Doomed):
        async def fate(self, runtime: AsideRuntime, line: Line) -> None:
            if did == "said":
                await line.connection.send("a word")
                with anyio.move_on_after(10):
                    await said.wait()
            else:
                line.say_aside(intent_begun=pb.IntentBegun(number=1, key="c:1:1", tool="pay", arguments_json="{}"))
                await line.next()  # its leave
            runtime.die()

    said = anyio.Event()
    async with fleet_of(*fleet(Acts(1))) as service, connect(service.url) as client:
        await client.send("one")
        if did == "said":
            assert await receive(client, 1) == ["a word"]
            said.set()
        assert await closed(client) == (1012, "runtime lost")
        assert moves(service) == {}


async def test_where_nobody_has_a_place_the_caller_is_told_and_its_id_is_free_for_another_runtime() -> None:
    runtimes = fleet(Doomed(1))
    async with fleet_of(*runtimes, adopt_timeout_ms=300) as service:
        async with connect(service.url + "?session_id=c") as client:
            for each in runtimes:
                each.refuse_with = LIMIT
            await client.send("one")
            assert await closed(client) == (1013, "no capacity")
        (first,) = [each for each in runtimes if each.lines]
        await until(lambda: service.balancer.front.statistics()["connections"] == 0)
        await until(lambda: not service.balancer.fleet.books.where("c"))
        (other,) = [each for each in runtimes if each is not first]
        other.refuse_with = 0
        async with connect(service.url + "?session_id=c") as again:
            await again.send("one")
            assert await receive(again, 1) == ["1:one"]
        assert len(other.lines) == 1
