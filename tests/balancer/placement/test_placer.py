"""The placer: what is held, asked, escalated and counted, against small runtimes over real gRPC."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import anyio
import pytest

from balancer.placement.errors import PlacementRefused, RefusalCode
from balancer.placement.placer import Placer
from balancer.placement.reservation import Door
from balancer.routing.request import PlacementRequest, Priority
from protos.switchboard.v1 import placement_pb2
from tests.balancer.support.fake_runtime import FakeRuntime
from tests.balancer.support.running import Running, running, until

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def placing(*runtimes: FakeRuntime, **settings: object) -> AsyncIterator[tuple[Running, Placer]]:
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running(**settings))
        for runtime in runtimes:
            await stack.enter_async_context(runtime.listening())
            await stack.enter_async_context(runtime.enrolling(service.control))
        view = service.balancer.fleet.view
        await until(lambda: len(view) == len(runtimes) and all(row.arrived_ns is not None for row in view.rows()))
        yield service, service.balancer.placer


async def refused(placer: Placer, request: PlacementRequest) -> PlacementRefused:
    with pytest.raises(PlacementRefused) as caught:
        await placer.place(request, Door.RELAY)
    return caught.value


# bugs R17, B10, B16, B19, B20
async def test_a_burst_is_spread_evenly_although_no_report_came_between() -> None:
    runtimes = [FakeRuntime(f"r{number}", hard_limit=8) for number in range(3)]
    async with placing(*runtimes, cold_allowance=8) as (service, placer):
        served: Counter[str] = Counter()

        async def place(number: int) -> None:
            served[(await placer.place(PlacementRequest(f"c{number}"), Door.RELAY)).runtime_id] += 1

        async with anyio.create_task_group() as tasks:
            for number in range(23):
                tasks.start_soon(place, number)
        view = service.balancer.fleet.view
        await until(lambda: sum(row.estimate for row in view.rows()) == 23)  # what was held to look twice is given back
        assert sorted(served.values()) == [7, 8, 8]
        kept = await refused(placer, PlacementRequest("normal"))
        assert {each.reason.value for each in kept.runtimes} == {"overload"}
        await placer.place(PlacementRequest("urgent", priority=Priority.HIGH), Door.RELAY)  # requirement R6
        full = await refused(placer, PlacementRequest("one-too-many", priority=Priority.HIGH))
        assert full.refusal is RefusalCode.NO_CAPACITY
        assert {each.reason.value for each in full.runtimes} == {"limit"}
        assert all(len(runtime.tickets) == 8 for runtime in runtimes)  # nobody holds more than its limit


async def test_what_the_runtime_is_told() -> None:
    runtime = FakeRuntime("r1", hard_limit=50)
    async with placing(runtime, cold_allowance=50) as (service, placer):
        for number in range(6):
            await placer.place(PlacementRequest(f"c{number}", agent="desk", abilities=frozenset({"tools"})), Door.ASSIGN)
        told = runtime.reserved
        assert [each.placement_number for each in told] == [1, 2, 3, 4, 5, 6]
        assert all(1 <= each.oldest_open_placement <= each.placement_number for each in told)
        assert {each.balancer_id for each in told} == {"balancer-1"}
        assert {each.balancer_incarnation for each in told} == {service.balancer.fleet.life.incarnation}
        assert told[0].needs == placement_pb2.Needs(agent="desk", abilities=["tools"])
        assert told[0].door == placement_pb2.DOOR_ASSIGN
        assert told[0].fair_share_per_s == 0.0  # too early to know
        row = service.balancer.fleet.view.row
        assert row(0).in_flight + row(0).reserved == 6  # answers in a rush are absorbed together; none is counted twice or not
        await until(lambda: (row(0).in_flight, row(0).reserved) == (0, 6))
        await placer.place(PlacementRequest("c6", agent="desk"), Door.ASSIGN)
        assert told[6].oldest_open_placement == 7
        assert told[6].fair_share_per_s > 0.0


async def test_the_same_session_is_never_given_two_places() -> None:  # bug R16
    runtimes = [FakeRuntime(f"r{number}") for number in range(3)]
    async with placing(*runtimes) as (service, placer):
        first = await placer.place(PlacementRequest("call"), Door.ASSIGN)
        for _ in range(5):
            again = await placer.place(PlacementRequest("call"), Door.ASSIGN)
            assert (again.runtime_id, again.epoch, again.ticket) == (first.runtime_id, 1, first.ticket)
        holder = next(runtime for runtime in runtimes if runtime.runtime_id == first.runtime_id)
        await holder.start_leg("call")
        await until(lambda: service.balancer.fleet.books.active == 1)
        assert (await refused(placer, PlacementRequest("call"))).refusal is RefusalCode.SESSION_LIVE
        await holder.end_leg("call", "closed_by_caller")
        await until(lambda: service.balancer.fleet.books.active == 0)
        assert (await placer.place(PlacementRequest("call"), Door.ASSIGN)).epoch == 2


async def test_a_leg_that_a_relay_used_is_not_given_again_though_nobody_named_it() -> None:
    """A runtime lost the call before it said that it began, and so did the next: either may refuse the leg as an old one."""
    async with placing(*[FakeRuntime(f"r{number}") for number in range(3)]) as (_, placer):
        mute = await placer.place(PlacementRequest("mute"), Door.RELAY)
        placer.hold("mute", mute.epoch)
        placer.let_go("mute")
        assert (await placer.place(PlacementRequest("mute"), Door.RELAY)).epoch == 2
        first = await placer.place(PlacementRequest("call"), Door.RELAY)
        placer.hold("call", first.epoch)
        anew = await placer.adopt(replace(first.request, epoch=2), frozenset({(first.runtime_id, first.incarnation)}))
        assert (anew.epoch, anew.request.is_adoption) == (2, False)
        assert anew.runtime_id != first.runtime_id
        assert (await refused(placer, PlacementRequest("call"))).refusal is RefusalCode.SESSION_LIVE
        placer.let_go("call")
        assert (await placer.place(PlacementRequest("call"), Door.RELAY)).epoch == 3


async def test_a_caller_who_comes_back_returns_to_its_runtime_while_that_is_well() -> None:  # requirement R5
    runtimes = [FakeRuntime(f"r{number}", hard_limit=20) for number in range(4)]
    async with placing(*runtimes, cold_allowance=20) as (service, placer):
        affinity = service.balancer.fleet.view.affinity
        first = await placer.place(PlacementRequest("call"), Door.ASSIGN)
        holder = next(runtime for runtime in runtimes if runtime.runtime_id == first.runtime_id)
        await holder.start_leg("call")
        await until(lambda: affinity.live == 1)
        await holder.end_leg("call", "closed_by_caller")
        await until(lambda: affinity.live == 0)
        for number in range(8):  # it is no longer the emptiest
            await holder.start_leg(f"other-{number}")
        view = service.balancer.fleet.view
        await until(lambda: sum(row.active for row in view.rows()) == 8)
        again = await placer.place(PlacementRequest("call"), Door.ASSIGN)
        assert (again.runtime_id, again.epoch) == (first.runtime_id, 2)
        assert again.reason.startswith("returns to its runtime, one of 4 with room")


async def test_two_at_once_with_one_session_id() -> None:
    runtime = FakeRuntime("r1", stays_silent=True)
    async with placing(runtime, reserve_timeout_ms=300) as (_, placer), anyio.create_task_group() as tasks:
        tasks.start_soon(refused, placer, PlacementRequest("call"))
        await until(lambda: placer.being_placed == 1)
        assert (await refused(placer, PlacementRequest("call"))).refusal is RefusalCode.SESSION_LIVE


@pytest.mark.parametrize(
    ("request_", "code", "status"),
    [
        (PlacementRequest("c", agent="nobody"), RefusalCode.UNKNOWN_AGENT, 404),
        (PlacementRequest("c", abilities=frozenset({"fly"})), RefusalCode.UNSUITABLE, 404),
        (PlacementRequest("c", min_version=(9,)), RefusalCode.UNSUITABLE, 404),
    ],
)
async def test_what_nobody_has_is_no_matter_of_trying_again(request_: PlacementRequest, code: RefusalCode, status: int) -> None:
    async with placing(FakeRuntime("r1")) as (_, placer):
        error = await refused(placer, request_)
        assert (error.refusal, error.http_status, error.retryable, error.retry_after_s) == (code, status, False, 0.0)
        assert len(error.runtimes) == 1


async def test_an_empty_fleet_and_a_closing_balancer() -> None:
    async with placing() as (_, placer):
        assert (await refused(placer, PlacementRequest("c"))).refusal is RefusalCode.NO_RUNTIME
        placer.is_closing = True
        assert (await refused(placer, PlacementRequest("c"))).refusal is RefusalCode.CLOSING
        counts = placer.counts
        assert counts.attempted == counts.refused.total() == 2


async def test_a_runtime_that_takes_no_release_is_not_counted_for_ever() -> None:
    runtime = FakeRuntime("r1", stays_silent=True, refuse_release=True)
    async with placing(runtime, reserve_timeout_ms=50) as (service, placer):
        await refused(placer, PlacementRequest("c"))
        assert service.balancer.fleet.view.row(0).in_flight == 1
        await until(lambda: service.balancer.fleet.view.row(0).in_flight == 0)
        assert len(runtime.released) == 4


async def test_an_unreachable_runtime_is_named_and_settled_in_the_end() -> None:
    runtime = FakeRuntime("r1", stays_silent=True)
    async with placing(runtime, reserve_timeout_ms=50) as (service, placer):
        error = await refused(placer, PlacementRequest("c"))
        assert [each.reason.value for each in error.runtimes] == ["unreachable"]
        assert "0.05 s" in error.runtimes[0].detail
        assert (error.http_status, error.retryable) == (503, True)
        await until(lambda: len(runtime.released) == 1)
        await until(lambda: service.balancer.fleet.view.row(0).in_flight == 0)
        assert dict(placer.counts.runtime_refusals) == {"unreachable": 1}
