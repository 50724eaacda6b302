"""Planned moves, and moves away from a silent runtime, end to end on loopback."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import cast

import anyio
import pytest
from websockets.asyncio.client import ClientConnection, connect

from balancer.continuity.move_table import MoveInput, MoveState
from balancer.front import search
from balancer.front.dial import DialFailed, RuntimeConnection, dial_runtime
from balancer.front.succession import Succession
from balancer.front.upgrade import Upgrade
from balancer.placement.placement import Placement
from protos.switchboard.v1 import continuity_pb2 as pb
from protos.switchboard.v1 import placement_pb2
from tests.balancer.support.aside_runtime import AsideRuntime, Line, agent, asides
from tests.balancer.support.running import Running, fleet_of, until

pytestmark = pytest.mark.anyio

ADOPTION = placement_pb2.PLACEMENT_KIND_ADOPTION
QUICKLY = {"runtime_probe_after_ms": 100, "runtime_suspect_after_ms": 300, "suspect_after_ms": 60_000, "lease_ttl_ms": 180_000}
"""The relay's own watch alone: the fleet hears of it much later."""


async def receive(client: ClientConnection, count: int) -> list[str | bytes]:
    with anyio.fail_after(10):
        return [await client.recv() for _ in range(count)]


async def says(client: ClientConnection, text: str, *answers: str) -> None:
    await client.send(text)
    assert await receive(client, len(answers)) == list(answers)


def moves(service: Running) -> dict[tuple[str, str], float]:
    return dict(service.balancer.front.calls.move_counts())


def succession(service: Running) -> Succession:
    (relay,) = service.balancer.front.calls.all()
    assert relay.succession is not None
    return relay.succession


def first_and_other(runtimes: list[AsideRuntime]) -> tuple[AsideRuntime, AsideRuntime]:
    (serving,) = [each for each in runtimes if each.lines and each.live]
    (other,) = [each for each in runtimes if each is not serving]
    return serving, other


def pair(**fields: object) -> list[AsideRuntime]:
    return [AsideRuntime(f"r{number}", **fields) for number in (1, 2)]  # type: ignore[arg-type]  # the fields


# Silent runtimes


async def test_a_silent_runtimes_call_goes_on_elsewhere_and_the_woken_one_is_not_heard() -> None:  # requirement C3
    runtimes = pair()
    async with fleet_of(*runtimes, **QUICKLY) as service, connect(service.url) as client:
        await says(client, "hello", "1:hello")
        stopped, other = first_and_other(runtimes)
        stopped.stop()
        await says(client, "are you there?", "2:are you there?")
        assert moves(service) == {("silent", "moved"): 1}
        stopped.wake()
        await until(lambda: stopped.live == {})
        await says(client, "good", "3:good")  # and not what the woken one had to say to the message before
        assert len(other.lines) == 1


async def test_nothing_is_cut_before_another_runtime_is_there_and_one_that_wakes_keeps_its_call() -> None:
    runtimes = pair()
    async with fleet_of(*runtimes, **QUICKLY) as service, connect(service.url) as client:
        await says(client, "hello", "1:hello")
        stopped, other = first_and_other(runtimes)
        other.refuse_with = placement_pb2.REFUSAL_REASON_LIMIT
        stopped.stop()
        await client.send("are you there?")
        await until(lambda: len(other.reserved) >= 2)
        assert succession(service).state is MoveState.SUSPECTED
        stopped.wake()
        assert await receive(client, 1) == ["2:are you there?"]
        await until(lambda: moves(service) == {("silent", "stayed"): 1})
        assert other.lines == []
        assert [each.kind for each in other.reserved] == [ADOPTION] * len(other.reserved)


async def test_a_runtime_that_the_fleet_does_not_hear_is_suspected_too() -> None:
    runtimes = pair()
    quiet = {"runtime_suspect_after_ms": 60_000, "probe_after_ms": 60_000}
    async with fleet_of(*runtimes, **quiet) as service, connect(service.url) as client:
        await says(client, "hello", "1:hello")
        stopped, _ = first_and_other(runtimes)
        await until(lambda: not succession(service)._call.runtime.heard)
        stopped.stop()
        await says(client, "are you there?", "2:are you there?")
        assert moves(service) == {("silent", "moved"): 1}
        stopped.wake()


async def test_an_idle_call_is_probed_and_not_suspected() -> None:
    runtimes = pair()
    async with fleet_of(*runtimes, **QUICKLY) as service, connect(service.url) as client:
        await says(client, "hello", "1:hello")
        line = first_and_other(runtimes)[0].lines[0]
        await until(lambda: line.asides.pings >= 10)  # as long as three suspicions
        assert moves(service) == {}


async def test_a_runtime_that_is_heard_in_the_last_moment_keeps_its_call() -> None:
    runtimes = pair()
    async with fleet_of(*runtimes, **QUICKLY) as service, connect(service.url) as client:
        await says(client, "hello", "1:hello")
        stopped, other = first_and_other(runtimes)
        other.refuse_with = placement_pb2.REFUSAL_REASON_LIMIT
        stopped.stop()
        await until(lambda: succession(service).state is MoveState.SUSPECTED)
        transport = AbortedTransport()
        succession(service)._call.runtime.heard = True
        connection = RuntimeConnection(cast(asyncio.Transport, transport), b"", has_asides=True)
        succession(service)._found(connection, cast(Placement, None))
        assert transport.is_aborted
        assert succession(service).state is MoveState.SERVING
        stopped.wake()
        await says(client, "more", "2:more")


class AbortedTransport:
    is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


# Planned moves


async def test_a_planned_move_loses_and_repeats_nothing() -> None:  # requirement C2
    runtimes = pair()
    async with fleet_of(*runtimes) as service:
        async with connect(service.url) as client:
            await says(client, "hello", "1:hello")
            source, target = first_and_other(runtimes)
            assert succession(service).want()
            assert not succession(service).want()
            await until(lambda: moves(service) == {("planned", "moved"): 1})
            await says(client, "still there?", "2:still there?")
            assert [each.WhichOneof("said") for each in source.lines[0].heard] == ["hand_over", "moved_out"]
            assert [each.WhichOneof("said") for each in target.lines[0].heard] == ["restore", "go_on"]
            assert [(each.kind, each.epoch) for each in target.reserved] == [(ADOPTION, 2)]
            books = service.balancer.fleet.books
            await until(lambda: (books.totals.moved_in, books.totals.moved_out, books.active) == (1, 1, 1))
            assert books.is_balanced
        await until(lambda: service.balancer.front.statistics()["connections"] == 0)


async def test_who_did_not_read_before_the_move_holds_back_the_target_too() -> None:  # requirement V5
    runtimes = pair()
    async with fleet_of(*runtimes) as service, connect(service.url) as client:
        await says(client, "hello", "1:hello")
        (relay,) = service.balancer.front.calls.all()
        relay.caller.pause_writing()
        assert succession(service).want()
        relay.runtime.resume_reading()  # its checkpoint may come
        await until(lambda: moves(service) == {("planned", "moved"): 1})
        assert not relay.runtime.transport.is_reading()
        relay.caller.resume_writing()
        await says(client, "more", "2:more")


async def test_a_call_moves_again_and_again_while_its_caller_talks() -> None:
    runtimes = [AsideRuntime(f"r{number}", hard_limit=100) for number in range(3)]
    count = 300
    async with fleet_of(*runtimes, cold_allowance=100) as service, connect(service.url) as client:
        await says(client, "hello", "1:hello")

        async def talk() -> None:
            for number in range(count):
                await client.send([f"{number}", "-", "x"] if number % 3 else f"{number}-x")

        async def keep_moving() -> None:
            for done in range(10):
                await until(lambda: succession(service).want())
                await until(lambda done=done: moves(service).get(("planned", "moved"), 0) == done + 1)  # type: ignore[misc]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_moving)
            tasks.start_soon(talk)
            assert await receive(client, count) == [f"{number + 2}:{number}-x" for number in range(count)]


async def test_what_the_source_says_until_the_cut_is_heard_and_counted() -> None:
    """Both sides by hand: the source plays on while the target makes itself ready."""
    ready = anyio.Event()
    played = 0
    heard: list[bytes | pb.RelayAside | None] = []

    async def by_hand(runtime: AsideRuntime, line: Line) -> None:
        nonlocal played
        if any(each.kind == ADOPTION for each in runtime.reserved):
            await line.next()
            await ready.wait()
            line.say_aside(restored=pb.Restored())
            while not asides(line, "go_on"):  # what the caller says meanwhile comes here too
                heard.append(await line.next())
            await line.connection.send("from the target")
            await line.next()
            return
        await line.next()
        await line.checkpoint([], 1)
        while True:
            item = await line.next()
            if isinstance(item, pb.RelayAside):
                if item.HasField("moved_out"):
                    await line.connection.close()
                    return
                await line.checkpoint([], 1, answers=item.hand_over.number)
            for _ in range(3):
                played += 1
                await line.connection.send(f"frame {played}")

    runtimes = pair(talk=by_hand)
    async with fleet_of(*runtimes) as service, connect(service.url) as client:
        await client.send("hello")
        await until(lambda: succession(service).want())
        assert await receive(client, 3) == ["frame 1", "frame 2", "frame 3"]
        await until(lambda: succession(service).state is MoveState.RESTORING)
        await client.send("play on")
        assert await receive(client, 3) == ["frame 4", "frame 5", "frame 6"]
        ready.set()
        assert await receive(client, 1) == ["from the target"]
        assert heard[0] == b"play on"
        (target,) = [each for each in runtimes if any(one.kind == ADOPTION for one in each.reserved)]
        assert asides(target.lines[0], "go_on")[0].told == 6  # since the checkpoint that it was given


@pytest.mark.parametrize(
    "failure", ["nobody", "not restored", "deaf source", "slow target", "target lost", "target speaks", "junk"]
)
async def test_a_move_that_fails_before_the_cut_changes_nothing(failure: str) -> None:
    async def talk(runtime: AsideRuntime, line: Line) -> None:
        if any(each.kind == ADOPTION for each in runtime.reserved) and failure in (
            "slow target",
            "target lost",
            "target speaks",
            "junk",
        ):
            await line.next()
            if failure == "target lost":
                line.connection.transport.abort()
            elif failure == "target speaks":
                await line.connection.send("too early")
            elif failure == "junk":
                line.connection.transport.write(b"\x92\x02\xff\xff")
            while await line.next() is not None:
                pass
            return
        await agent(runtime, line)

    runtimes = pair(talk=talk)
    timeout_ms = 400 if failure in ("deaf source", "slow target") else 30_000
    async with fleet_of(*runtimes, move_timeout_ms=timeout_ms) as service, connect(service.url) as client:
        await says(client, "hello", "1:hello")
        source, target = first_and_other(runtimes)
        if failure == "nobody":
            target.refuse_with = placement_pb2.REFUSAL_REASON_LIMIT
        target.cannot_restore = failure == "not restored"
        source.is_deaf_to_hand_over = failure == "deaf source"
        assert succession(service).want()
        await client.send("meanwhile")
        await until(lambda: moves(service) == {("planned", "stayed"): 1})
        assert await receive(client, 1) == ["2:meanwhile"]
        await says(client, "after", "3:after")
        said = [each.WhichOneof("said") for each in source.lines[0].heard]
        assert said == ([] if failure == "nobody" else ["hand_over", "stay"])
        await until(lambda: target.live == {})
        assert service.balancer.fleet.books.totals.moved_out == 0


async def test_a_caller_who_says_more_than_is_kept_while_its_state_is_asked_for_stays_where_it_is() -> None:
    runtimes = pair(may_hand_over=anyio.Event())
    async with fleet_of(*runtimes, replay_most_bytes=65_536) as service, connect(service.url) as client:
        await says(client, "hello", "1:hello")
        source, target = first_and_other(runtimes)
        assert succession(service).want()
        await until(lambda: succession(service).state is MoveState.HANDING_OVER)
        for _ in range(3):
            await client.send("x" * 40_000)
        await until(lambda: succession(service).memory.kept.forgotten_upto > 1)
        assert source.may_hand_over is not None
        source.may_hand_over.set()
        await until(lambda: moves(service) == {("planned", "stayed"): 1})
        assert [len(str(said)) for said in await receive(client, 3)] == [40_002] * 3
        await says(client, "after", "5:after")
        await until(lambda: target.live == {})


@pytest.mark.parametrize("when", ["handing over", "restoring"])
async def test_the_target_takes_over_when_the_source_goes_before_the_cut(when: str) -> None:
    async def talk(runtime: AsideRuntime, line: Line) -> None:
        if any(each.kind == ADOPTION for each in runtime.reserved) and when == "restoring":
            (other,) = [each for each in runtimes if each is not runtime]
            await until(lambda: succession(service).state is MoveState.RESTORING)
            other.die()
        await agent(runtime, line)

    runtimes = pair(talk=talk)
    async with fleet_of(*runtimes) as service, connect(service.url) as client:
        await says(client, "hello", "1:hello")
        source, _ = first_and_other(runtimes)
        source.is_deaf_to_hand_over = when == "handing over"
        assert succession(service).want()
        if when == "handing over":
            await until(lambda: len(asides(source.lines[0], "hand_over")) == 1)
            source.die()
        await says(client, "more", "2:more")
        await until(lambda: moves(service) == {("planned", "moved"): 1})


async def test_a_caller_who_leaves_while_it_moves_leaves_nothing_behind() -> None:
    runtimes = pair(is_deaf_to_hand_over=True)
    async with fleet_of(*runtimes) as service:
        async with connect(service.url) as client:
            await says(client, "hello", "1:hello")
            assert succession(service).want()
            await until(lambda: succession(service).state is MoveState.HANDING_OVER)
        await until(lambda: service.balancer.front.statistics()["connections"] == 0)
        assert moves(service) == {("planned", "left"): 1}
        await until(lambda: all(each.live == {} for each in runtimes))


async def test_a_move_goes_where_it_was_told_to() -> None:
    runtimes = [AsideRuntime(f"r{number}") for number in range(5)]
    async with fleet_of(*runtimes) as service, connect(service.url) as client:
        await says(client, "hello", "1:hello")
        wanted = next(each for each in runtimes if not each.live)
        assert succession(service).want(wanted.runtime_id)
        await until(lambda: moves(service) == {("planned", "moved"): 1})
        assert wanted.live
        await says(client, "here", "2:here")
        wanted.die()  # where it was told to go says nothing about where it may go on
        await says(client, "there", "3:there")
        assert moves(service) == {("planned", "moved"): 1, ("crash", "moved"): 1}


async def test_the_search_of_a_planned_move_is_none_for_a_call_that_is_lost_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks at one named runtime, once: another that has room must be found all the same."""
    runtimes = [AsideRuntime(f"r{number}") for number in range(3)]
    may_fail = anyio.Event()
    async with fleet_of(*runtimes) as service, connect(service.url) as client:
        await says(client, "hello", "1:hello")
        (first,) = [each for each in runtimes if each.live]
        named = next(each for each in runtimes if not each.live)

        async def dial(upgrade: Upgrade, placement: Placement, timeout_s: float) -> RuntimeConnection:
            if placement.runtime_id == named.runtime_id:
                await may_fail.wait()
                raise DialFailed("slow")
            return await dial_runtime(upgrade, placement, timeout_s)

        monkeypatch.setattr(search, "dial_runtime", dial)
        call = succession(service)
        assert call.want(named.runtime_id)
        await until(lambda: bool(named.reserved))
        call._happened(MoveInput.SILENT)
        first.die()
        await until(lambda: call.state is not MoveState.SUSPECTED)
        may_fail.set()
        await says(client, "still?", "2:still?")


async def test_idle_calls_of_one_runtime_share_their_probes_and_are_left_together_when_it_stops() -> None:  # requirement C3
    only, other = AsideRuntime("r1", hard_limit=40), AsideRuntime("r2", hard_limit=40)
    other.refuse_with = placement_pb2.REFUSAL_REASON_LIMIT
    async with fleet_of(only, other, cold_allowance=40, **QUICKLY) as service, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(service.url)) for _ in range(30)]
        for client in clients:
            await says(client, "hello", "1:hello")
        await until(lambda: sum(line.asides.pings for line in only.lines) >= 32, within_s=20)
        # A few calls were asked for all of them; each for itself, all would have been asked by now.
        assert sum(line.asides.pings > 0 for line in only.lines) < 30
        calls = service.balancer.front.calls.all()
        assert {call.succession.state for call in calls if call.succession is not None} == {MoveState.SERVING}
        assert moves(service) == {}
        other.refuse_with = 0
        only.stop()
        for client in clients:
            await says(client, "are you there?", "2:are you there?")
        assert moves(service) == {("silent", "moved"): 30}
