"""Membership at a balancer, against a small registry that keeps what it is told and does to the stream what the test wants."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import grpc
import pytest
from grpc import aio

from balancer.telemetry.logs import make_logger
from protos.switchboard.v1 import load_pb2, registry_pb2_grpc
from protos.switchboard.v1 import registry_pb2 as pb
from runtime.fleet import enrollment as module
from runtime.fleet.enrollment import Enrollment, Membership
from runtime.primitives.ids import Epoch, SessionId
from runtime.primitives.load_snapshot import CostClass, RuntimeState
from runtime.primitives.reasons import EndReason
from runtime.session.ledger import LegChange, LegEvent
from tests.support.local_runtime import until

pytestmark = pytest.mark.anyio

_MEMBERSHIP = Membership(
    "r1", 7, "m1", "127.0.0.1:1", "127.0.0.1:2", "eu", ("tools",), ("desk",), "1.0", "0.1.0", CostClass.SPOT, 9
)


class _NoWait:
    """Every draw is 0: no wait between two tries, no jitter."""

    def random(self) -> float:
        return 0.0


class _Registry(registry_pb2_grpc.RegistryServicer):
    """`refuse_with`: the status that the next registrations get. `deaf`: does not read after the registration."""

    def __init__(self) -> None:
        self.streams: list[list[pb.EnrollRequest]] = []
        self.refuse_with: grpc.StatusCode | None = None
        self.is_deaf = False
        self.open = 0
        self.ask: list[pb.EnrollResponse] = []
        self.breaks = anyio.Event()

    async def Enroll(self, _: Any, context: Any) -> None:  # type: ignore[override]  # the generator form only
        told: list[pb.EnrollRequest] = [await context.read()]
        self.streams.append(told)
        if self.refuse_with is not None:
            await context.abort(self.refuse_with, "not you")
        registered = pb.Registered(balancer_id="b", balancer_incarnation=1, heartbeat_interval_ms=50)
        await context.write(pb.EnrollResponse(registered=registered))
        self.open += 1
        breaks = self.breaks
        try:
            for response in self.ask:
                await context.write(response)
            if self.is_deaf:
                await breaks.wait()
            async with anyio.create_task_group() as group:

                async def break_off() -> None:
                    await breaks.wait()
                    group.cancel_scope.cancel()

                group.start_soon(break_off)
                while isinstance(message := await context.read(), pb.EnrollRequest):
                    told.append(message)
                group.cancel_scope.cancel()
        finally:
            self.open -= 1

    def break_streams(self) -> None:
        self.breaks.set()
        self.breaks = anyio.Event()

    def told(self, kind: str, stream: int = -1) -> list[Any]:
        if kind == "leg":
            return [
                event for each in self.streams[stream] for event in ((each.leg,) if each.HasField("leg") else each.legs.events)
            ]
        return [getattr(each, kind) for each in self.streams[stream] if each.WhichOneof("payload") == kind]


class _Member:
    """An enrollment with a small ledger behind it."""

    def __init__(self, address: str) -> None:
        self.live: list[tuple[SessionId, int]] = []
        self.version = 0
        self.state = RuntimeState.READY
        self.drains = 0
        self.registered = 0
        self.log = io.StringIO()
        self.enrollment = Enrollment(
            address,
            _MEMBERSHIP,
            lambda: (list(self.live), self.version),
            lambda: self.state,
            lambda: setattr(self, "drains", self.drains + 1),
            lambda _: setattr(self, "registered", self.registered + 1),
            _NoWait(),
            make_logger(self.log, "debug"),
        )

    def start(self, name: str) -> None:
        self.version += 1
        self.live.append((SessionId(name), 1))
        self.enrollment.leg_changed(LegEvent(SessionId(name), Epoch(1), LegChange.STARTED, self.version))

    def end(self, name: str) -> None:
        self.version += 1
        self.live.remove((SessionId(name), 1))
        event = LegEvent(SessionId(name), Epoch(1), LegChange.ENDED, self.version, EndReason.IDLE_TIMEOUT)
        self.enrollment.leg_changed(event)


@asynccontextmanager
async def _enrolled(prepare: Callable[[_Registry, _Member], None] = lambda *_: None) -> AsyncIterator[tuple[_Registry, _Member]]:
    registry = _Registry()
    server = aio.server()
    registry_pb2_grpc.add_RegistryServicer_to_server(registry, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    member = _Member(f"127.0.0.1:{port}")
    prepare(registry, member)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(member.enrollment.run)
            yield registry, member
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await server.stop(None)


async def test_it_registers_with_everything_that_is_live_and_beats() -> None:
    async with _enrolled(lambda _, member: member.start("early")) as (registry, member):
        await until(lambda: member.registered == 1)
        await until(lambda: len(registry.told("heartbeat")) >= 3)
        (register,) = registry.told("register")
        assert register.runtime_id == "r1"
        assert register.incarnation == 7
        assert register.cost_class == "spot"
        assert (register.hard_limit, list(register.agents), list(register.abilities)) == (9, ["desk"], ["tools"])
        assert [(leg.session_id, leg.epoch) for leg in register.live] == [("early", 1)]
        assert register.ledger_version == 1
        assert register.state == load_pb2.RUNTIME_STATE_READY
        assert [beat.sequence for beat in registry.told("heartbeat")][:3] == [1, 2, 3]
        assert not registry.told("leg")  # what the registration said is not said again


async def test_leg_events_come_in_order_and_without_a_gap() -> None:  # bug B13, B39
    async with _enrolled() as (registry, member):
        await until(lambda: member.registered == 1)
        for number in range(20):
            member.start(f"s{number}")
        for number in range(20):
            member.end(f"s{number}")
        await until(lambda: len(registry.told("leg")) == 40)
        assert [event.ledger_version for event in registry.told("leg")] == list(range(1, 41))
        last = registry.told("leg")[-1]
        assert (last.leg.session_id, last.change, last.reason) == ("s19", pb.LEG_CHANGE_ENDED, "idle_timeout")
        written = [each.WhichOneof("payload") for each in registry.streams[-1]]
        assert "legs" in written
        assert written.count("leg") + written.count("legs") <= 3  # what waits together travels together


async def test_after_a_broken_stream_the_whole_truth_is_told_again() -> None:  # bug R12, B18
    async with _enrolled() as (registry, member):
        await until(lambda: member.registered == 1)
        member.start("kept")
        await until(lambda: len(registry.told("leg")) == 1)
        registry.break_streams()
        member.start("meanwhile")
        await until(lambda: member.registered == 2)
        (register,) = registry.told("register")
        legs = [(event.leg.session_id, event.ledger_version) for event in registry.told("leg")]
        named = {leg.session_id for leg in register.live} | {name for name, _ in legs}
        assert named == {"kept", "meanwhile"}
        assert [version for _, version in legs] == list(range(register.ledger_version + 1, 3))
        member.end("kept")
        await until(lambda: bool(registry.told("leg")) and registry.told("leg")[-1].ledger_version == 3)
        assert "enrollment ended" in member.log.getvalue()


async def test_more_than_the_queue_holds_is_told_as_a_new_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_QUEUE_LIMIT", 64)
    async with _enrolled() as (registry, member):
        await until(lambda: member.registered == 1)
        for number in range(200):  # in one step of the event loop: nothing can be written meanwhile
            member.start(f"s{number}")
        assert member.enrollment.waiting == 64
        await until(lambda: member.registered == 2)
        (register,) = registry.told("register")
        assert (len(register.live), register.ledger_version) == (200, 200)
        member.end("s0")
        await until(lambda: len(registry.told("leg")) == 1)
        assert registry.told("leg")[0].ledger_version == 201
        await until(lambda: registry.open == 1)


async def test_a_refusal_is_logged_and_tried_again() -> None:
    def refuse(registry: _Registry, _: _Member) -> None:
        registry.refuse_with = grpc.StatusCode.FAILED_PRECONDITION

    async with _enrolled(refuse) as (registry, member):
        await until(lambda: len(registry.streams) >= 2)
        assert member.registered == 0
        assert "not you" in member.log.getvalue()
        registry.refuse_with = None
        await until(lambda: member.registered == 1)


async def test_the_balancer_may_ask_for_a_drain() -> None:
    def ask(registry: _Registry, _: _Member) -> None:
        registry.ask.append(pb.EnrollResponse(drain=pb.DrainRequested()))

    async with _enrolled(ask) as (_, member):
        await until(lambda: member.drains == 1)


async def test_the_goodbye_is_written_before_flush_returns() -> None:
    async with _enrolled() as (registry, member):
        await until(lambda: member.registered == 1)
        member.start("s")
        member.end("s")
        member.state = RuntimeState.OFFLINE
        member.enrollment.state_changed()
        await member.enrollment.flush()
        assert member.enrollment.waiting == 0
        await until(lambda: bool(registry.told("state")))
        assert registry.told("state")[-1].state == load_pb2.RUNTIME_STATE_OFFLINE
        assert [event.ledger_version for event in registry.told("leg")] == [1, 2]


async def test_flush_gives_up_where_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GOODBYE_S", 0.05)
    member = _Member("127.0.0.1:1")
    member.start("s")
    with anyio.fail_after(10):
        await member.enrollment.flush()
    assert member.enrollment.waiting == 1
