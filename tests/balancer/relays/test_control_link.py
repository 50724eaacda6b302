"""A relay's link: what is told anew, what must not fall between two streams, and when a control is taken for lost."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import grpc
import pytest

from balancer.placement.errors import PlacementRefused, RefusalCode
from balancer.placement.reservation import Door
from balancer.routing.request import PlacementRequest
from protos.switchboard.v1 import relay_control_pb2 as pb
from protos.switchboard.v1 import relay_control_pb2_grpc
from tests.balancer.support.fake_runtime import FakeRuntime
from tests.balancer.support.relaying import relaying
from tests.balancer.support.running import running, until

pytestmark = pytest.mark.anyio


async def test_a_new_control_learns_all_that_is_held() -> None:  # requirement C3, decision 12
    runtime = FakeRuntime("r1")
    async with running() as old, relaying(old.control) as relay, runtime.listening():
        link = relay.link
        await until(lambda: link.standing is not None)
        link.hold("a", 1)
        link.hold("b", 1)
        link.hold("c", 2)
        await until(lambda: old.balancer.relays.relays.holder("c") is not None)
        await old.stop_control()
        await until(lambda: link.standing is None)
        link.epoch_used("a", 7)  # asked for as the control went
        link.let_go("b")
        link.hold("d", 1)
        async with running(control_at=old.control) as new, runtime.enrolling(new.control):
            await until(lambda: link.standing is not None)
            (attached,) = new.balancer.relays.relays.attached()
            assert attached.held == {"a": 7, "c": 2, "d": 1}  # in the very step in which the relay may ask for places
            await until(lambda: len(new.balancer.fleet.view) == 1 and new.balancer.fleet.view.row(0).arrived_ns is not None)
            with pytest.raises(PlacementRefused) as live:
                await relay.placer.place(PlacementRequest("a"), Door.RELAY)
            assert live.value.refusal is RefusalCode.SESSION_LIVE
            link.let_go("a")
            assert (await relay.placer.place(PlacementRequest("b"), Door.RELAY)).epoch == 1
            await until(lambda: "a" not in attached.held)
            assert (await relay.placer.place(PlacementRequest("a"), Door.RELAY)).epoch == 8
            assert link.attached == 2


class SlowControl(relay_control_pb2_grpc.RelayControlServicer):
    """Notes what it is told, and says where things stand when it is let."""

    def __init__(self) -> None:
        self.told: list[pb.FromRelay] = []
        self.streams = 0
        self.may_answer = anyio.Event()
        self.reads = True
        self.placing = 0

    async def Attend(self, _requests: Any, context: Any) -> None:  # type: ignore[override]  # as the real one
        self.streams += 1

        async def answer() -> None:
            await self.may_answer.wait()
            await context.write(pb.FromControl(standing=pb.Standing(balancer_id="slow")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            while self.reads and isinstance(message := await context.read(), pb.FromRelay):
                self.told.append(message)
            await anyio.sleep_forever()

    async def Place(self, _request: Any, _context: Any) -> Any:
        self.placing += 1
        await anyio.sleep_forever()

    def events(self) -> list[str]:
        found = [event for message in self.told for event in message.events.events]
        return [each.let_go or each.held.session_id or str(each.released) for each in found]


@contextlib.asynccontextmanager
async def slow_control() -> AsyncIterator[tuple[SlowControl, str]]:
    control, server = SlowControl(), grpc.aio.server()
    relay_control_pb2_grpc.add_RelayControlServicer_to_server(control, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield control, f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


async def test_what_happens_between_the_listing_and_the_answer_is_told() -> None:
    async with slow_control() as (control, address), relaying(address) as relay:
        relay.link.hold("before", 1)
        await until(lambda: any(each.HasField("listed") for each in control.told))
        assert relay.link.standing is None
        relay.link.hold("between", 1)
        relay.link.let_go("before")
        control.may_answer.set()
        await until(lambda: relay.link.standing is not None)
        relay.link.released(3)
        await until(lambda: control.events() == ["before", "between", "before", "3"])
        assert control.told[0].attend == pb.Attend(relay_id="relay-1", relay_life=7, operator_address="127.0.0.1:1")


async def test_a_request_that_is_given_up_is_named_by_its_number() -> None:
    """The end of the request alone may cross its answer."""
    async with slow_control() as (control, address), relaying(address) as relay:
        control.may_answer.set()
        await until(lambda: relay.link.standing is not None)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(relay.placer.place, PlacementRequest("call"), Door.RELAY)
            await until(lambda: control.placing == 1)
            tasks.cancel_scope.cancel()
        await until(lambda: control.events() == ["1"])


async def test_a_control_that_says_nothing_any_more_is_lost_and_looked_for_again() -> None:
    async with slow_control() as (control, address), relaying(address, silence_s=0.2) as relay:
        control.may_answer.set()
        await until(lambda: relay.link.standing is not None)
        await until(lambda: relay.link.standing is None)
        await until(lambda: relay.link.attached >= 2)
        assert '"cause": "silent for too long"' in relay.log.getvalue()


async def test_a_control_that_takes_nothing_is_lost_and_told_everything_anew() -> None:
    async with slow_control() as (control, address), relaying(address) as relay:
        control.may_answer.set()
        await until(lambda: relay.link.standing is not None)
        control.reads = False
        for number in range(10_001):  # in one step: none can be written meanwhile
            relay.link.hold(f"call-{number}", 1)
        assert len(relay.link._events) == 10_000
        control.reads = True
        await until(lambda: control.streams == 2)
        await until(lambda: f"call-{10_000}" in control.events())
        assert "it does not take what it is told" in relay.log.getvalue()


async def test_a_control_that_is_not_there_is_looked_for_until_it_is() -> None:
    async with running() as first:
        address = first.control
        await first.stop_control()
        async with relaying(address) as relay:
            with pytest.raises(PlacementRefused):
                await relay.placer.place(PlacementRequest("call"), Door.RELAY)
            async with running(control_at=address):
                await until(lambda: relay.link.standing is not None)
