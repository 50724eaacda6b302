"""The control's side: news to relays, moves, streams that are bad, silent or taken over."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import anyio
import grpc
import httpx
import pytest

from balancer.dashboard.operator_app import operator_app
from balancer.relays.control_service import RelayControlService
from balancer.telemetry.logs import make_logger
from protos.switchboard.v1 import relay_control_pb2 as pb
from protos.switchboard.v1 import relay_control_pb2_grpc
from tests.balancer.support.fake_runtime import FakeRuntime
from tests.balancer.support.relaying import relaying
from tests.balancer.support.running import Running, fleet_of, running, until

pytestmark = pytest.mark.anyio

_Stream = grpc.aio.StreamStreamCall[pb.FromRelay, pb.FromControl]


def operators(service: Running) -> httpx.AsyncClient:
    balancer = service.balancer
    app = operator_app(balancer.documents, balancer.clock, balancer.metrics.render, balancer.controls)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://operator")


async def test_relays_hear_who_is_suspected_who_leaves_and_whether_there_is_room() -> None:  # requirement C1, C3
    silent, leaving = FakeRuntime("silent"), FakeRuntime("leaving", incarnation=4)
    settings = {"suspect_after_ms": 300, "lease_ttl_ms": 60_000}
    async with fleet_of(silent, leaving, **settings) as service, relaying(service.control) as relay:
        await until(lambda: relay.link.is_ready)
        assert not relay.link.is_leaving("leaving", 4)
        await leaving.begin_to_drain()
        await until(lambda: relay.link.is_leaving("leaving", 4))
        assert not relay.link.is_leaving("leaving", 3)
        assert relay.side.drains_tended == 1
        silent.is_stopped = True
        await until(lambda: ("silent", 1) in relay.side.suspected)
        await until(lambda: not relay.link.is_ready)


async def test_operators_see_relays_and_move_their_calls() -> None:
    async with fleet_of(FakeRuntime("r1")) as service, operators(service) as http, relaying(service.control) as relay:
        await until(lambda: relay.link.standing is not None)
        relay.link.hold("call", 1)
        attached = service.balancer.relays.relays
        await until(lambda: attached.holder("call") is not None and bool(attached.attached()[0].numbers))
        document = (await http.get("/v1/fleet")).json()
        assert [(each["relay_id"], each["held"], each["numbers"]) for each in document["relays"]] == [
            ("relay-1", 1, {"relayed": 2.0})
        ]
        assert document["moves"] == [{"kind": "planned", "result": "moved", "count": 3}]
        assert "switchboard_relays 1.0" in (await http.get("/metrics")).text
        moved = await http.post("/v1/calls/call/move", json={"to": "r1"})
        assert (moved.status_code, relay.side.wishes) == (202, [("call", "r1")])
        relay.side.problem = "it cannot move at this moment"
        refused = await http.post("/v1/calls/call/move", json={"to": ""})
        assert (refused.status_code, refused.json()["error"]["message"]) == (409, "it cannot move at this moment")
        unknown = await http.post("/v1/calls/other/move", json={"to": ""})
        assert unknown.json()["error"]["message"] == "no such call is relayed here"
        assert len(relay.side.wishes) == 2


@contextlib.asynccontextmanager
async def desk(service: Running, **limits: float) -> AsyncIterator[tuple[RelayControlService, grpc.aio.Channel]]:
    """A desk with limits of its own, for a control that runs already, and a channel to it."""
    balancer, server = service.balancer, grpc.aio.server()
    own = RelayControlService(
        balancer.placer, balancer.fleet, lambda: True, balancer.clock, make_logger(service.log, "debug"), **limits
    )
    relay_control_pb2_grpc.add_RelayControlServicer_to_server(own, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel, anyio.create_task_group() as tasks:
            tasks.start_soon(own.run)
            yield own, channel
            tasks.cancel_scope.cancel()
    finally:
        await server.stop(None)


async def attend(channel: grpc.aio.Channel, life: int = 9) -> _Stream:
    """A relay that has listed one call and was told where things stand."""
    stream: _Stream = relay_control_pb2_grpc.RelayControlStub(channel).Attend()
    await stream.write(pb.FromRelay(attend=pb.Attend(relay_id="raw", relay_life=life)))
    held = pb.RelayEvent(held=pb.HeldLeg(session_id="call", epoch=1))
    await stream.write(pb.FromRelay(events=pb.RelayEvents(events=[held])))
    await stream.write(pb.FromRelay(listed=pb.Listed()))
    first = await stream.read()
    assert isinstance(first, pb.FromControl)
    assert first.standing.place_within_ms == 5000
    return stream


async def test_a_relay_is_told_nothing_before_it_has_listed_what_it_holds() -> None:
    """Whoever is told where things stand asks for places."""
    async with running() as service, desk(service) as (own, channel):
        stream: _Stream = relay_control_pb2_grpc.RelayControlStub(channel).Attend()
        told: list[object] = []

        async def read() -> None:
            told.append(await stream.read())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await stream.write(pb.FromRelay(attend=pb.Attend(relay_id="raw", relay_life=9)))
            await until(lambda: len(own.relays.attached()) == 1)
            own.standing_changed()
            for _ in range(20):  # time for it to say something
                with pytest.raises(grpc.aio.AioRpcError):
                    await relay_control_pb2_grpc.RelayControlStub(channel).Place(pb.PlaceRequest())
            assert told == []
            await stream.write(pb.FromRelay(listed=pb.Listed()))
            await until(lambda: len(told) == 1)


async def _to_its_end(stream: _Stream) -> None:
    while await stream.read() is not grpc.aio.EOF:
        pass


async def test_a_relay_that_does_not_say_whether_a_call_can_move_is_not_waited_for() -> None:
    async with running() as service, desk(service, move_answer_s=0.05) as (own, channel):
        stream = await attend(channel)
        assert await own.move("call", "") == "its relay did not answer in time"
        message = await stream.read()
        while isinstance(message, pb.FromControl) and not message.HasField("move"):
            message = await stream.read()
        assert isinstance(message, pb.FromControl)
        assert message.move == pb.MoveWish(number=1, session_id="call")
        await stream.write(pb.FromRelay(moved=pb.MoveAnswer(number=1, problem="late")))  # nobody waits for it any more
        assert await own.move("call", "") == "its relay did not answer in time"


async def test_a_silent_relay_loses_its_stream_and_keeps_what_it_holds_for_a_while() -> None:
    async with running() as service, desk(service, silence_s=0.2) as (own, channel):
        stream = await attend(channel)
        with pytest.raises(grpc.aio.AioRpcError, match="silent for too long"):
            await _to_its_end(stream)
        assert own.relays.attached() == []
        assert "call" in service.balancer.placer._held


async def test_the_second_stream_of_a_life_takes_over() -> None:
    async with running() as service, desk(service) as (own, channel):
        first = await attend(channel)
        second = await attend(channel)
        with pytest.raises(grpc.aio.AioRpcError, match="another stream of this relay took over"):
            await _to_its_end(first)
        assert [each.relay_id for each in own.relays.attached()] == ["raw"]
        await second.write(pb.FromRelay(events=pb.RelayEvents(events=[pb.RelayEvent(let_go="call")])))
        await until(lambda: "call" not in service.balancer.placer._held)


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (pb.FromRelay(listed=pb.Listed()), "the first message must be `attend`"),
        (pb.FromRelay(attend=pb.Attend(relay_id="a b", relay_life=1)), "attend.relay_id"),
        (pb.FromRelay(attend=pb.Attend(relay_id="x" * 65, relay_life=1)), "attend.relay_id"),
        (pb.FromRelay(attend=pb.Attend(relay_id="one")), "attend.relay_life is 0"),
    ],
)
async def test_a_bad_beginning_is_refused_by_field(first: pb.FromRelay, words: str) -> None:
    async with running() as service, grpc.aio.insecure_channel(service.control) as channel:
        stream: _Stream = relay_control_pb2_grpc.RelayControlStub(channel).Attend()
        await stream.write(first)
        assert await stream.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert words in str(await stream.details())
        assert service.balancer.relays.relays.attached() == []
