"""A relay's placer against a live control and small runtimes: the same as one of its own process; and without a control."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import anyio
import grpc
import pytest

from balancer.front.places import Places
from balancer.front.responses import refusal_response
from balancer.placement.errors import PlacementRefused, RefusalCode
from balancer.placement.reservation import Door
from balancer.routing.request import PlacementRequest, Priority
from protos.switchboard.v1 import placement_pb2, relay_control_pb2_grpc
from protos.switchboard.v1 import relay_control_pb2 as pb
from tests.balancer.support.fake_runtime import FakeRuntime
from tests.balancer.support.relaying import Relaying, relaying
from tests.balancer.support.running import Running, fleet_of, running, until

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def relayed(*runtimes: FakeRuntime, **settings: object) -> AsyncIterator[tuple[Running, Relaying]]:
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(fleet_of(*runtimes, **settings))
        relay = await stack.enter_async_context(relaying(service.control))
        await until(lambda: relay.link.standing is not None)
        yield service, relay


async def refused(placer: Places, request: PlacementRequest) -> PlacementRefused:
    with pytest.raises(PlacementRefused) as caught:
        await placer.place(request, Door.RELAY)
    return caught.value


async def test_a_place_is_the_same_as_one_of_the_own_process() -> None:
    runtime = FakeRuntime("r1")
    async with relayed(runtime) as (service, relay):
        request = PlacementRequest(
            "call",
            agent="desk",
            abilities=frozenset({"tools"}),
            region="eu",
            min_version=(1, 2),
            priority=Priority.HIGH,
            tenant="acme",
        )
        placement = await relay.placer.place(request, Door.RELAY)
        again = await service.balancer.placer.place(request, Door.RELAY)  # the same place: it is held and was not used
        facts = (
            "request",
            "runtime_id",
            "incarnation",
            "websocket_address",
            "grpc_address",
            "ticket",
            "ticket_ttl_ms",
            "cross_region",
        )
        assert {fact: getattr(placement, fact) for fact in facts if fact != "request"} == {
            fact: getattr(again, fact) for fact in facts if fact != "request"
        }
        assert replace(placement.request, only_runtime="r1") == again.request
        told = runtime.reserved[0]
        assert (told.tenant, told.priority, told.door) == ("acme", placement_pb2.PRIORITY_HIGH, placement_pb2.DOOR_RELAY)
        assert told.needs == placement_pb2.Needs(agent="desk", abilities=["tools"])


async def test_a_session_that_is_held_is_in_use_until_it_is_let_go() -> None:
    async with relayed(FakeRuntime("r1"), FakeRuntime("r2")) as (service, relay):
        placer = relay.placer
        first = await placer.place(PlacementRequest("call"), Door.RELAY)
        placer.hold("call", first.epoch)
        attached = service.balancer.relays.relays
        await until(lambda: attached.holder("call") is not None)
        assert (await refused(placer, PlacementRequest("call"))).refusal is RefusalCode.SESSION_LIVE
        lost = frozenset({(first.runtime_id, first.incarnation)})
        next_one = await placer.adopt(replace(first.request, epoch=5, is_adoption=True), lost)
        assert (next_one.epoch, next_one.request.is_adoption) == (5, True)
        assert next_one.runtime_id != first.runtime_id
        placer.let_go("call")
        await until(lambda: attached.holder("call") is None)
        assert (await placer.place(PlacementRequest("call"), Door.RELAY)).epoch == 6


async def test_a_refusal_comes_whole() -> None:
    runtimes = [FakeRuntime("r1", refuse_with=placement_pb2.REFUSAL_REASON_OVERLOAD), FakeRuntime("r2", hard_limit=1)]
    async with relayed(*runtimes) as (service, relay):
        await runtimes[1].start_leg("live")
        await until(lambda: service.balancer.fleet.books.active == 1)
        near, far = [await refused(placer, PlacementRequest("call")) for placer in (service.balancer.placer, relay.placer)]
        assert {each.reason.value for each in far.runtimes} == {"overload", "limit"}
        assert (far.refusal, str(far), far.runtimes, far.retry_after_s) == (
            near.refusal,
            str(near),
            near.runtimes,
            near.retry_after_s,
        )
        assert far.retry_after_s == 1.5
        assert refusal_response(far) == refusal_response(near)
        unknown = await refused(relay.placer, PlacementRequest("call", agent="nobody"))
        assert (unknown.refusal, unknown.http_status, unknown.retry_after_s) == (RefusalCode.UNKNOWN_AGENT, 404, 0.0)


async def test_who_leaves_while_a_runtime_is_asked_leaves_nothing_held() -> None:
    runtime = FakeRuntime("r1", stays_silent=True)
    async with relayed(runtime, reserve_timeout_ms=5000) as (service, relay):
        placer = service.balancer.placer
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(relay.placer.place, PlacementRequest("gone"), Door.RELAY)
            await until(lambda: len(runtime.reserved) == 1)
            tasks.cancel_scope.cancel()
        await until(lambda: placer.counts.abandoned == 1 and placer.being_placed == 0)
        runtime.stays_silent = False
        runtime.answer_now.set()
        await until(lambda: [each.session_id for each in runtime.released] == ["gone"])
        await until(lambda: service.balancer.fleet.view.row(0).in_flight == 0)
        assert not service.balancer.relays._placing


async def test_a_place_whose_answer_nobody_waits_for_any_more_is_given_back() -> None:
    """The relay gave up in the very moment in which the control answered: it says so by the number, and the control knows it."""
    runtime = FakeRuntime("r1")
    async with relayed(runtime) as (service, relay):
        placement = await relay.placer.place(PlacementRequest("late"), Door.ASSIGN)
        relay.link.released(placement.number)
        await until(lambda: [each.session_id for each in runtime.released] == ["late"])
        await until(lambda: not runtime.tickets)
        relay.placer.release(placement)  # again: nothing more
        assert (await relay.placer.place(PlacementRequest("next"), Door.RELAY)).runtime_id == "r1"
        assert len(runtime.released) == 1
        assert not service.balancer.relays._placing


async def test_a_place_is_given_back_before_it_is_held() -> None:
    """The word that it is not wanted may come before the end of the request itself."""
    runtime = FakeRuntime("r1", stays_silent=True)
    async with relayed(runtime, reserve_timeout_ms=5000) as (service, relay):
        outcome: list[PlacementRefused] = []

        async def place() -> None:
            outcome.append(await refused(relay.placer, PlacementRequest("early")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(place)
            await until(lambda: len(runtime.reserved) == 1)
            relay.link.released(1)
            await until(lambda: len(outcome) == 1)
        assert service.balancer.placer.counts.abandoned == 1
        runtime.stays_silent = False
        runtime.answer_now.set()
        await until(lambda: [each.session_id for each in runtime.released] == ["early"])


async def test_a_caller_waits_for_its_turn_at_the_control_and_may_leave_the_queue() -> None:
    runtime = FakeRuntime("r1", hard_limit=1)
    settings = {
        "waiting_places": 2,
        "waiting_timeout_s": 20.0,
        "overload_normal": 1.5,
        "overload_high": 1.5,
        "cold_allowance": 100,
    }
    async with relayed(runtime, **settings) as (service, relay):
        await runtime.start_leg("live")
        view, room = service.balancer.fleet.view, service.balancer.placer.room
        await until(lambda: view.row(0).active == 1)
        placed: list[str] = []

        async def place(name: str) -> None:
            placed.append((await relay.placer.place(PlacementRequest(name), Door.RELAY)).session_id)

        async with anyio.create_task_group() as tasks:
            leaving = anyio.CancelScope()

            async def leave() -> None:
                with leaving:
                    await place("impatient")

            tasks.start_soon(leave)
            await until(lambda: len(room.queue) == 1)
            tasks.start_soon(place, "patient")
            await until(lambda: len(room.queue) == 2)
            full = await refused(relay.placer, PlacementRequest("third"))
            assert full.queue is not None
            assert full.queue.place == 3
            leaving.cancel()
            await until(lambda: [each.session_id for each in room.queue.waiters()] == ["patient"])
            await runtime.end_leg("live", "closed_by_caller")
            await until(lambda: placed == ["patient"])


async def test_a_runtime_that_admits_and_cannot_be_reached_is_given_back_and_another_tried() -> None:
    runtimes = [FakeRuntime("r1"), FakeRuntime("r2")]
    async with relayed(*runtimes) as (service, relay):
        counts = service.balancer.placer.counts
        first = await relay.placer.place(PlacementRequest("call"), Door.RELAY)
        second = await relay.placer.place_again(first, Door.RELAY)
        assert second.runtime_id != first.runtime_id
        await until(lambda: sum(len(each.released) for each in runtimes) == 1)
        assert (counts.attempted, counts.placed) == (1, 1)
        answer = relay.placer.fail(second, "no answer")
        assert (answer.refusal, answer.runtimes[0].detail) == (RefusalCode.NO_CAPACITY, "no answer")
        await until(lambda: sum(len(each.released) for each in runtimes) == 2)
        await until(lambda: (counts.placed, dict(counts.refused)) == (0, {"no_capacity": 1}))


async def test_without_a_control_callers_are_told_to_come_again() -> None:
    async with relaying("127.0.0.1:1") as relay:
        answer = await refused(relay.placer, PlacementRequest("call"))
        assert (answer.refusal, answer.http_status, answer.retry_after_s) == (RefusalCode.CONTROL_UNREACHABLE, 503, 1.0)
        assert not relay.link.is_ready
        relay.placer.is_closing = True
        assert (await refused(relay.placer, PlacementRequest("call"))).refusal is RefusalCode.CLOSING


async def test_a_control_that_dies_while_it_is_asked_is_unreachable() -> None:
    runtime = FakeRuntime("r1", stays_silent=True)
    outcome: list[PlacementRefused] = []
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running(reserve_timeout_ms=9000))
        await stack.enter_async_context(runtime.listening())
        relay = await stack.enter_async_context(relaying(service.control))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        async with AsyncExitStack() as enrolment:
            await enrolment.enter_async_context(runtime.enrolling(service.control))
            view = service.balancer.fleet.view
            await until(lambda: len(view) == 1 and view.row(0).arrived_ns is not None and relay.link.standing is not None)

            async def place() -> None:
                outcome.append(await refused(relay.placer, PlacementRequest("call")))

            tasks.start_soon(place)
            await until(lambda: len(runtime.reserved) == 1)
            await service.stop_control()
            await until(lambda: len(outcome) == 1)
        assert outcome[0].refusal is RefusalCode.CONTROL_UNREACHABLE
        await until(lambda: relay.link.standing is None)
        assert (await refused(relay.placer, PlacementRequest("call"))).refusal is RefusalCode.CONTROL_UNREACHABLE


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"session_id": "a b"}, "session_id is 'a b'"),
        ({"tenant": "a b"}, "tenant is 'a b'"),
        ({"abilities": ["x"] * 33}, "abilities is '33 words'; allowed: at most 32"),
        ({"priority": 0}, "priority is '0'"),
        ({"door": 0}, "door is '0'"),
        ({"way": 0}, "way is '0'"),
        ({"way": pb.PLACE_WAY_NEXT_LEG}, "epoch is '0'; allowed: 1 and up"),
    ],
)
async def test_a_bad_request_is_refused_by_field_value_and_range(changes: dict[str, object], words: str) -> None:
    good = {"relay_life": 1, "number": 1, "way": 1, "door": 1, "session_id": "call", "priority": 2}
    async with running() as service, grpc.aio.insecure_channel(service.control) as channel:
        stub = relay_control_pb2_grpc.RelayControlStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as bad:
            await stub.Place(pb.PlaceRequest(**{**good, **changes}))  # type: ignore[arg-type]  # some are wrong on purpose
        assert bad.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert words in str(bad.value.details())
        assert service.balancer.placer.counts.attempted == 0
