"""Waiting for a place at a live balancer: turns, priorities, time-outs, cancellation, and what callers are told."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator

import anyio
import httpx
import pytest
import websockets
from websockets.asyncio.client import connect

from balancer.dashboard.operator_app import operator_app
from balancer.placement.errors import PlacementRefused, RefusalCode
from balancer.placement.placer import Placer
from balancer.placement.reservation import Door
from balancer.routing.request import PlacementRequest, Priority
from protos.switchboard.v1 import placement_pb2
from tests.balancer.support.fake_runtime import FakeRuntime
from tests.balancer.support.running import Running, running, until

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def full(runtime: FakeRuntime, **settings: object) -> AsyncIterator[tuple[Running, Placer]]:
    """A fleet of one runtime, every place of which is taken."""
    allowed = {
        "waiting_places": 4,
        "waiting_timeout_s": 20.0,
        "cold_allowance": 100,
        "overload_normal": 1.5,
        "overload_high": 1.5,
    }
    async with running(**{**allowed, **settings}) as service, runtime.listening(), runtime.enrolling(service.control):
        for number in range(runtime.hard_limit):
            await runtime.start_leg(f"live-{number}")
        view = service.balancer.fleet.view
        await until(lambda: len(view) == 1 and view.row(0).active == runtime.hard_limit)
        yield service, service.balancer.placer


class Callers:
    """Places in the background; what came of each, in the order in which it came."""

    def __init__(self, placer: Placer) -> None:
        self.placer = placer
        self.ended: list[str] = []
        self.refused: dict[str, PlacementRefused] = {}

    async def call(self, name: str, priority: Priority = Priority.NORMAL, agent: str = "") -> None:
        try:
            await self.placer.place(PlacementRequest(name, priority=priority, agent=agent), Door.RELAY)
        except PlacementRefused as refused:
            self.refused[name] = refused
        self.ended.append(name)


def nothing_is_left(placer: Placer) -> bool:
    room = placer.room
    return not room.queue.waiters() and not room._bells and placer.being_placed == 0


async def test_fail_fast_is_the_default() -> None:
    async with full(FakeRuntime("r1", hard_limit=1), waiting_places=0) as (_, placer):
        callers = Callers(placer)
        await callers.call("now")
        assert callers.refused["now"].queue is None
        assert nothing_is_left(placer)


async def test_turns_are_by_priority_and_then_by_arrival() -> None:
    runtime = FakeRuntime("r1", hard_limit=3)
    async with full(runtime) as (_, placer), anyio.create_task_group() as tasks:
        callers = Callers(placer)
        for place, (name, priority) in enumerate((("n1", "normal"), ("l1", "low"), ("n2", "normal"), ("h1", "high")), 1):
            tasks.start_soon(callers.call, name, Priority(priority))
            await until(lambda place=place: len(placer.room.queue) == place)  # type: ignore[misc]
        assert placer.being_placed == 4
        await callers.call("fifth", Priority.LOW)  # the queue is full
        told = callers.refused["fifth"].queue
        assert told is not None
        assert (told.place, callers.refused["fifth"].refusal) == (5, RefusalCode.NO_CAPACITY)
        for number, name in enumerate(("h1", "n1", "n2")):
            await runtime.end_leg(f"live-{number}", "closed_by_caller")
            await until(lambda number=number: len(callers.ended) == number + 2)  # type: ignore[misc]
            assert callers.ended[-1] == name
        assert [each.session_id for each in placer.room.queue.waiters()] == ["l1"]
        runtime.tickets.pop("ticket-h1-1")  # it never came
        await until(lambda: callers.ended[-1] == "l1")
        await until(lambda: nothing_is_left(placer))
        counts = placer.counts
        assert (counts.attempted, counts.placed, dict(counts.refused)) == (5, 4, {"no_capacity": 1})
        assert [record.outcome for record in placer.log.latest(9)].count("no_capacity") == 1  # each attempt is recorded once


async def test_needs_that_nobody_can_meet_hold_up_nobody_else() -> None:
    runtime, other = FakeRuntime("r1", hard_limit=1, agents=("desk",)), FakeRuntime("r2", hard_limit=1, agents=("sales",))
    async with full(runtime) as (service, placer), other.listening(), other.enrolling(service.control):
        await other.start_leg("sold")
        await until(lambda: sum(row.active for row in service.balancer.fleet.view.rows()) == 2)
        async with anyio.create_task_group() as tasks:
            callers = Callers(placer)
            tasks.start_soon(callers.call, "first", Priority.NORMAL, "desk")
            await until(lambda: len(placer.room.queue) == 1)
            tasks.start_soon(callers.call, "second", Priority.NORMAL, "sales")
            await until(lambda: len(placer.room.queue) == 2)
            await other.end_leg("sold", "closed_by_caller")
            await until(lambda: callers.ended == ["second"])
            tasks.cancel_scope.cancel()
        assert nothing_is_left(placer)


async def test_a_wait_ends_with_the_place_that_was_reached() -> None:
    async with full(FakeRuntime("r1", hard_limit=2), waiting_timeout_s=0.3) as (service, placer):
        callers = Callers(placer)
        async with anyio.create_task_group() as tasks:
            for name in ("a", "b"):
                tasks.start_soon(callers.call, name)
        told = [callers.refused[name].queue for name in callers.ended]
        assert told[-1] is not None
        assert told[-1].place == 1  # the other had gone by then
        assert all(each is not None and each.estimated_wait_s is not None and each.estimated_wait_s > 0 for each in told)
        assert nothing_is_left(placer)
        with pytest.raises(websockets.InvalidStatus) as refused:
            await connect(service.url)
        body = refused.value.response.body
        assert body is not None
        error = json.loads(body)["error"]
        assert (error["code"], error["queue"]["place"]) == ("no_capacity", 1)
        assert error["queue"]["estimated_wait_s"] > 1


async def test_who_hangs_up_leaves_nothing() -> None:
    runtime = FakeRuntime("r1", hard_limit=1)
    async with full(runtime) as (service, placer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Callers(placer).call, "gone")
            await until(lambda: len(placer.room.queue) == 1)
            tasks.cancel_scope.cancel()
        assert nothing_is_left(placer)
        assert placer.counts.abandoned == 1
        opening = connect(service.url + "?session_id=hangs-up", open_timeout=0.2)
        with pytest.raises(TimeoutError):
            await opening
        await until(lambda: nothing_is_left(placer))
        assert placer.counts.abandoned == 2
        await runtime.end_leg("live-0", "closed_by_caller")
        async with connect(service.url):
            assert len(runtime.connections) == 1


async def test_a_runtime_that_looks_open_and_refuses_is_not_asked_without_pause() -> None:
    runtime = FakeRuntime("r1", hard_limit=4, refuse_with=placement_pb2.REFUSAL_REASON_NOT_READY)
    async with (
        running(waiting_places=2, waiting_timeout_s=0.5) as service,
        runtime.listening(),
        runtime.enrolling(service.control),
    ):
        await until(lambda: service.balancer.fleet.reports.taken >= 1)
        callers = Callers(service.balancer.placer)
        await callers.call("unlucky")
        assert callers.refused["unlucky"].runtimes[0].reason.value == "not_ready"
        assert 2 <= len(runtime.reserved) <= 12  # twice an attempt, at most ten attempts a second


async def test_closing_sends_those_who_wait_away() -> None:
    async with full(FakeRuntime("r1", hard_limit=1)) as (_, placer), anyio.create_task_group() as tasks:
        callers = Callers(placer)
        tasks.start_soon(callers.call, "waits")
        await until(lambda: len(placer.room.queue) == 1)
        placer.is_closing = True
        await until(lambda: callers.ended == ["waits"])
        assert callers.refused["waits"].refusal is RefusalCode.CLOSING
        assert nothing_is_left(placer)


async def test_operators_see_who_waits() -> None:
    async with full(FakeRuntime("r1", hard_limit=1)) as (service, placer), anyio.create_task_group() as tasks:
        balancer = service.balancer
        app = operator_app(balancer.documents, balancer.clock, balancer.metrics.render, balancer.controls)
        tasks.start_soon(Callers(placer).call, "urgent", Priority.HIGH)
        tasks.start_soon(Callers(placer).call, "usual")
        await until(lambda: len(placer.room.queue) == 2)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://operator") as http:
            shown = (await http.get("/v1/queue")).json()
            assert (shown["places"], shown["timeout_s"], shown["waiting"]) == (4, 20.0, 2)
            assert [(each["session_id"], each["place"]) for each in shown["callers"]] == [("urgent", 1), ("usual", 2)]
            assert shown["callers"][1]["estimated_wait_s"] > shown["callers"][0]["estimated_wait_s"] > 0
            assert "switchboard_placements_waiting 2.0" in (await http.get("/metrics")).text
        tasks.cancel_scope.cancel()
