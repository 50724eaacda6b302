"""Calls that outlive their runtime, end to end on loopback: a real client, the relay, small runtimes that say asides."""

from __future__ import annotations

import contextlib

import anyio
import pytest
import websockets
from websockets.asyncio.client import ClientConnection, connect

from protos.switchboard.v1 import continuity_pb2 as pb
from protos.switchboard.v1 import placement_pb2
from runtime.primitives.rng import SeededRng
from tests.balancer.support.aside_runtime import AsideRuntime, Line, agent, asides
from tests.balancer.support.fake_runtime import FakeRuntime
from tests.balancer.support.running import Running, fleet_of, until

pytestmark = pytest.mark.anyio

ADOPTION = placement_pb2.PLACEMENT_KIND_ADOPTION


async def receive(client: ClientConnection, count: int) -> list[str | bytes]:
    with anyio.fail_after(10):
        return [await client.recv() for _ in range(count)]


async def closed(client: ClientConnection) -> tuple[int, str]:
    """What it is closed with; whatever comes before is read."""
    with anyio.fail_after(10), contextlib.suppress(websockets.ConnectionClosed):
        async for _ in client:
            pass
    assert client.close_code is not None
    return client.close_code, client.close_reason or ""


def moves(service: Running) -> dict[tuple[str, str], float]:
    return dict(service.balancer.front.calls.move_counts())


def serving(runtimes: list[AsideRuntime], session_id: str = "c") -> AsideRuntime:
    (found,) = [each for each in runtimes if session_id in each.live]
    return found


def pair(**fields: object) -> list[AsideRuntime]:
    return [AsideRuntime(f"r{number}", **fields) for number in (1, 2)]  # type: ignore[arg-type]  # the fields


async def says(client: ClientConnection, text: str, *answers: str) -> None:
    await client.send(text)
    assert await receive(client, len(answers)) == list(answers)


# The runtime is lost


async def test_a_call_outlives_a_broken_connection_and_hears_everything_once() -> None:  # requirement C3
    runtimes = pair()
    async with fleet_of(*runtimes) as service:
        async with connect(service.url + "?session_id=c") as client:
            await says(client, "hello", "1:hello")
            first = serving(runtimes)
            second = runtimes[0] if first is runtimes[1] else runtimes[1]
            first.die()
            await says(client, "still there?", "2:still there?")
            assert [(each.kind, each.epoch) for each in second.reserved] == [(ADOPTION, 2)]
            (restore,), (go_on,) = asides(second.lines[0], "restore"), asides(second.lines[0], "go_on")
            assert (restore.applied, restore.replay_from, go_on.told) == (1, 2, 1)
            assert moves(service) == {("crash", "moved"): 1}
            books = service.balancer.fleet.books
            await until(lambda: books.active == 1)
            assert books.totals.moved_in == 1
            assert books.is_balanced
        await until(lambda: books.active == 0)
        assert service.balancer.front.statistics()["connections"] == 0


async def test_what_the_lost_runtime_had_not_said_yet_is_said_by_the_next() -> None:
    runtimes = pair()
    async with fleet_of(*runtimes) as service, connect(service.url + "?session_id=c") as client:
        await says(client, "hello", "1:hello")
        serving(runtimes).dies_after = 4
        await says(client, "sing 7", "2:sing 7", *(f"2/{number}" for number in range(7)))
        await says(client, "thanks", "3:thanks")


async def test_messages_that_no_checkpoint_holds_are_sent_again() -> None:
    """The runtime dies with messages unread: the next one gets each of them once, fragments of one together."""

    async def stop_reading(runtime: AsideRuntime, line: Line) -> None:
        if any(each.kind == ADOPTION for each in runtime.reserved):
            await agent(runtime, line)
            return
        await line.next()
        await line.checkpoint(["1:one"], 1)
        await line.connection.send("1:one")
        for _ in range(4):
            await line.next()
        runtime.die()

    async with fleet_of(*pair(talk=stop_reading)) as service, connect(service.url + "?session_id=c") as client:
        await says(client, "one", "1:one")
        await client.send("two")
        await client.send(["thr", "e", "e"])
        await client.send("x" * 70_000)
        await client.send("five")
        assert await receive(client, 4) == ["2:two", "3:three", "4:" + "x" * 70_000, "5:five"]
        assert service.balancer.front.statistics()["replayed_bytes"] > 70_000


@pytest.mark.parametrize("seed", range(6))
async def test_whenever_runtimes_die_the_caller_hears_what_an_undisturbed_call_hears(seed: int) -> None:  # requirement C3
    """Runtimes die after drawn numbers of messages, in the middle of songs; the fleet never has fewer than one."""
    rng = SeededRng(seed)
    runtimes = [AsideRuntime(f"r{number}", hard_limit=50) for number in range(3)]
    said = [f"sing {int(rng.random() * 9)}" if rng.random() < 0.5 else f"word {number}" for number in range(60)]
    said[3::7] = ["sing 25"] * len(said[3::7])
    expected = []
    for ordinal, text in enumerate(said, 1):
        expected.append(f"{ordinal}:{text}")
        expected += [f"{ordinal}/{number}" for number in range(int(text.removeprefix("sing ")) if text[:5] == "sing " else 0)]
    async with fleet_of(*runtimes, cold_allowance=50) as service, connect(service.url + "?session_id=c") as client:
        heard: list[str | bytes] = []

        async def talk() -> None:
            for number, text in enumerate(said):
                await until(lambda: sum(each.is_connected for each in runtimes) == 1)
                (doomed,) = [each for each in runtimes if each.is_connected]
                if number % 7 == 3:
                    doomed.dies_after = 1 + int(rng.random() * 25)
                await client.send(text)
                if number % 7 == 3 and rng.random() < 0.7:  # else the caller talks on meanwhile
                    await until(lambda: not any(each.dies_after for each in runtimes))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(talk)
            with anyio.fail_after(30):
                while len(heard) < len(expected):
                    heard.append(await client.recv())
        assert heard == expected
        assert moves(service).get(("crash", "moved"), 0) >= 2
        assert set(moves(service)) == {("crash", "moved")}


async def test_nobody_adopts_the_caller_is_told_and_it_is_counted() -> None:
    only = AsideRuntime("r1")
    async with fleet_of(only, adopt_timeout_ms=300) as service, connect(service.url + "?session_id=c") as client:
        await says(client, "hello", "1:hello")
        only.refuse_with = placement_pb2.REFUSAL_REASON_LIMIT
        only.die()
        assert await closed(client) == (1013, "no capacity")
        assert moves(service) == {("crash", "gave_up"): 1}
        statistics = service.balancer.front.statistics()
        assert (statistics["no_capacity"], statistics["upstream_lost"]) == (1, 0)
        await until(lambda: service.balancer.front.statistics()["connections"] == 0)


async def test_a_runtime_that_comes_free_within_the_bound_adopts() -> None:
    first, second = pair()
    second.refuse_with = limit = placement_pb2.REFUSAL_REASON_LIMIT
    async with fleet_of(first, second) as service, connect(service.url + "?session_id=c") as client:
        await says(client, "hello", "1:hello")
        first.refuse_with = limit  # it lost the connection alone, and would take the call back
        first.die()
        await until(lambda: len(second.reserved) >= 2)
        second.refuse_with = 0
        await says(client, "and now?", "2:and now?")
        assert moves(service) == {("crash", "moved"): 1}


async def test_the_callers_pings_are_answered_and_its_goodbye_too_while_no_runtime_is_there() -> None:
    first, second = pair()
    second.refuse_with = limit = placement_pb2.REFUSAL_REASON_LIMIT
    async with fleet_of(first, second) as service:
        async with connect(service.url + "?session_id=c") as client:
            await says(client, "hello", "1:hello")
            first.refuse_with = limit  # it lost the connection alone, and would take the call back
            first.die()
            await until(lambda: len(second.reserved) >= 1 and not service.balancer.fleet.books.where("c"))
            with anyio.fail_after(5):
                await (await client.ping())
            with pytest.raises(websockets.InvalidStatus) as refused:  # the session is in use, though nobody serves it
                await connect(service.url + "?session_id=c")
            assert refused.value.response.status_code == 409
        assert client.close_code == 1000
        await until(lambda: service.balancer.front.statistics()["connections"] == 0)
        assert moves(service) == {("crash", "left"): 1}


async def test_a_flood_while_no_runtime_is_there_is_held_back_and_lost_nowhere() -> None:
    first, second = pair()
    second.refuse_with = limit = placement_pb2.REFUSAL_REASON_LIMIT
    count, size = 40, 20_000
    async with fleet_of(first, second, replay_most_bytes=100_000) as service, connect(service.url + "?session_id=c") as client:
        await says(client, "hello", "1:hello")
        first.refuse_with = limit  # it lost the connection alone, and would take the call back
        first.die()
        await until(lambda: len(second.reserved) >= 1)

        async def flood() -> None:
            for number in range(count):
                await client.send(f"{number:_>{size}}")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flood)
            kept = service.balancer.front.calls.all()[0].succession.memory.kept  # type: ignore[union-attr]  # it has one
            await until(lambda: kept.is_full)
            assert 100_000 <= kept.size_bytes < 100_000 + 3 * 65_536 + size
            second.refuse_with = 0
            answers = await receive(client, count)
        assert answers == [f"{number + 2}:{number:_>{size}}" for number in range(count)]


async def test_a_call_that_takes_runtimes_down_with_it_takes_three() -> None:
    """What the caller said kills whoever reads it: the fleet must outlive that."""

    async def faint(runtime: AsideRuntime, line: Line) -> None:
        while (item := await line.next()) is not None:
            if item == b"poison":
                runtime.die()
            elif item == b"hello":
                await line.checkpoint([], 1)
                await line.connection.send("1:hello")

    runtimes = [AsideRuntime(f"r{number}", talk=faint) for number in range(6)]
    async with fleet_of(*runtimes) as service, connect(service.url + "?session_id=c") as client:
        await says(client, "hello", "1:hello")
        await client.send("poison")
        assert await closed(client) == (1012, "runtime lost")
        assert sum(len(each.lines) for each in runtimes) == 4
        assert moves(service) == {("crash", "moved"): 3}


async def test_a_runtime_that_cannot_restore_is_passed_over() -> None:
    first, second, third = [AsideRuntime(f"r{number}") for number in range(3)]
    second.cannot_restore = True
    runtimes = [first, second, third]
    async with fleet_of(*runtimes) as service, connect(service.url + "?session_id=c") as client:
        await says(client, "hello", "1:hello")
        for each in runtimes:
            each.cannot_restore = each is not third and each is not serving(runtimes)
        if serving(runtimes) is third:
            first.cannot_restore = False
        serving(runtimes).die()
        await says(client, "go on", "2:go on")


# How runtimes end


async def test_a_close_after_the_sessions_end_reaches_the_caller() -> None:
    async def leave(_runtime: AsideRuntime, line: Line) -> None:
        await line.next()
        await line.checkpoint([], 1)
        await line.connection.send("bye")
        await line.end("closed_by_agent", 1001)

    async with fleet_of(*pair(talk=leave)) as service, connect(service.url) as client:
        await says(client, "hello", "bye")
        assert await closed(client) == (1001, "closed_by_agent")
        assert moves(service) == {}


async def test_a_close_without_it_is_a_lost_runtime() -> None:
    async def crash(runtime: AsideRuntime, line: Line) -> None:
        if any(each.kind == ADOPTION for each in runtime.reserved):
            await agent(runtime, line)
            return
        await line.next()
        await line.checkpoint(["1:hello"], 1)
        await line.connection.send("1:hello")
        await line.connection.close(1011, "a fault")

    async with fleet_of(*pair(talk=crash)) as service, connect(service.url) as client:
        await says(client, "hello", "1:hello")
        await says(client, "more", "2:more")
        assert moves(service) == {("crash", "moved"): 1}


@pytest.mark.parametrize("breach", ["fragment", "no aside", "applied", "replay_from", "state"])
async def test_a_runtime_that_breaks_the_protocol_is_a_lost_one(breach: str) -> None:
    async def err(runtime: AsideRuntime, line: Line) -> None:
        if any(each.kind == ADOPTION for each in runtime.reserved):
            await agent(runtime, line)
            return
        await line.next()
        await line.checkpoint(["1:hello"], 1)
        await line.connection.send("1:hello")
        await line.next()
        match breach:
            case "fragment":
                await line.connection.send(["in ", "pieces"])
            case "no aside":
                line.connection.transport.write(b"\x92\x02\xff\xff")
            case "applied":
                line.say_aside(checkpoint=pb.Checkpoint(state=b"[]", applied=3, replay_from=1))
            case "replay_from":
                line.say_aside(checkpoint=pb.Checkpoint(state=b"[]", applied=2, replay_from=4))
            case _:
                line.say_aside(checkpoint=pb.Checkpoint(state=bytes(512 * 1024 + 1), applied=2, replay_from=3))

    async with fleet_of(*pair(talk=err)) as service, connect(service.url) as client:
        await says(client, "hello", "1:hello")
        await says(client, "more", "2:more")
        assert moves(service) == {("crash", "moved"): 1}


async def test_a_runtime_without_asides_never_adopts() -> None:
    first, plain, third = AsideRuntime("r1"), FakeRuntime("r2"), AsideRuntime("r3")
    limit = plain.refuse_with = third.refuse_with = placement_pb2.REFUSAL_REASON_LIMIT
    async with fleet_of(first, plain, third) as service, connect(service.url + "?session_id=c") as client:
        await says(client, "hello", "1:hello")
        plain.refuse_with, first.refuse_with = 0, limit
        first.die()
        await until(lambda: len(plain.connections) >= 1)
        third.refuse_with = 0
        await says(client, "more", "2:more")
        assert "c" in third.live
        assert moves(service) == {("crash", "moved"): 1}
        await until(lambda: plain.live == {})


async def test_a_runtime_that_lost_only_the_connection_gets_the_call_back_where_nobody_else_is() -> None:
    only = AsideRuntime("r1")
    async with fleet_of(only) as service, connect(service.url + "?session_id=c") as client:
        await says(client, "hello", "1:hello")
        only.die()
        await says(client, "more", "2:more")
        assert only.live["c"] >= 2


async def test_a_full_runtime_adopts() -> None:  # it keeps room beyond its limit for calls that lost their own
    runtimes = pair(hard_limit=1)
    async with (
        fleet_of(*runtimes) as service,
        connect(service.url + "?session_id=c") as client,
        connect(service.url + "?session_id=d") as other,
    ):
        await says(client, "hello", "1:hello")
        await says(other, "hello", "1:hello")
        await until(lambda: all(row.active == 1 for row in service.balancer.fleet.view.rows()))
        serving(runtimes).refuse_with = placement_pb2.REFUSAL_REASON_LIMIT
        serving(runtimes).die()
        await says(client, "more", "2:more")
        assert moves(service) == {("crash", "moved"): 1}


# Intents


@pytest.mark.parametrize("is_finished", [True, False])
async def test_an_intent_outlives_the_runtime_that_began_it(is_finished: bool) -> None:
    async def use(runtime: AsideRuntime, line: Line) -> None:
        if any(each.kind == ADOPTION for each in runtime.reserved):
            while (item := await line.next()) is not None:
                if isinstance(item, pb.RelayAside) and item.HasField("go_on"):
                    begun = pb.IntentBegun(number=9, key="c:1:1", tool="pay", arguments_json='{"cents":5}')
                    line.say_aside(intent_begun=begun)
                    begun.arguments_json = '{"cents":6}'
                    line.say_aside(intent_begun=begun)
            return
        await line.next()
        await line.checkpoint([], 1)
        begun = pb.IntentBegun(number=7, key="c:1:1", tool="pay", arguments_json='{"cents":5}')
        line.say_aside(intent_begun=begun)
        answer = await line.next()
        assert isinstance(answer, pb.RelayAside)
        if runtime.is_quiet:  # an outcome is known
            done = pb.IntentFinished(
                number=8, key=begun.key, tool=begun.tool, arguments_json=begun.arguments_json, result_json="1"
            )
            line.say_aside(intent_finished=done)
            await line.next()
        runtime.die()

    runtimes = pair(talk=use, is_quiet=is_finished)
    async with fleet_of(*runtimes) as service, connect(service.url) as client:
        await client.send("hello")
        await until(lambda: sum(len(asides(line, "intent_answer")) for each in runtimes for line in each.lines) >= 3)
        lines = sorted((line for each in runtimes for line in each.lines), key=lambda line: bool(asides(line, "go_on")))
        before, after = (asides(line, "intent_answer") for line in lines)
        assert (before[0].number, before[0].state) == (7, pb.INTENT_STATE_FRESH)
        again, other = after[0], after[1]
        assert again.number == 9
        assert again.state == (pb.INTENT_STATE_FINISHED if is_finished else pb.INTENT_STATE_UNKNOWN)
        assert again.result_json == ("1" if is_finished else "")
        assert other.state == pb.INTENT_STATE_FRESH
