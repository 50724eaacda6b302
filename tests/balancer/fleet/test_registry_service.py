"""Enrolment over a real gRPC stream: refusals name the field, a broken stream is seen at once, a goodbye is a goodbye."""

from __future__ import annotations

from typing import Any

import anyio
import grpc
import pytest

from protos.switchboard.v1 import registry_pb2, registry_pb2_grpc
from tests.balancer.support.fake_runtime import FakeRuntime
from tests.balancer.support.running import running, until

pytestmark = pytest.mark.anyio


async def refusal(control: str, **changes: Any) -> grpc.aio.AioRpcError:
    runtime = FakeRuntime("r1", websocket_address="127.0.0.1:1", grpc_address="127.0.0.1:2")
    register = runtime.registration()
    for name, value in changes.items():
        setattr(register, name, value)
    async with grpc.aio.insecure_channel(control) as channel:
        call = registry_pb2_grpc.RegistryStub(channel).Enroll()
        await call.write(registry_pb2.EnrollRequest(register=register))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            with anyio.fail_after(5):
                await call.read()
        return refused.value


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"runtime_id": "Bad Id"}, grpc.StatusCode.INVALID_ARGUMENT, "register.runtime_id"),
        ({"hard_limit": 0}, grpc.StatusCode.INVALID_ARGUMENT, "register.hard_limit"),
        ({"grpc_address": "x"}, grpc.StatusCode.INVALID_ARGUMENT, "register.grpc_address"),
        ({"state": 0}, grpc.StatusCode.INVALID_ARGUMENT, "register.state"),
        ({"cost_class": "free"}, grpc.StatusCode.INVALID_ARGUMENT, "register.cost_class"),
        ({"sdk_version": "0.0.9"}, grpc.StatusCode.FAILED_PRECONDITION, "min_sdk_version"),
    ],
)
async def test_a_refused_enrolment_names_the_field(changes: dict[str, object], status: object, words: str) -> None:
    async with running() as service:
        error = await refusal(service.control, **changes)
        assert error.code() is status
        assert words in (error.details() or "")
        assert len(service.balancer.fleet.membership) == 0


async def test_the_first_message_must_register() -> None:
    async with running() as service, grpc.aio.insecure_channel(service.control) as channel:
        call = registry_pb2_grpc.RegistryStub(channel).Enroll()
        await call.write(registry_pb2.EnrollRequest(heartbeat=registry_pb2.Heartbeat(sequence=1)))
        with pytest.raises(grpc.aio.AioRpcError, match="register"):
            await call.read()


async def test_a_life_from_enrolment_to_loss() -> None:
    runtime = FakeRuntime("r1")
    async with running() as service, runtime.listening():
        fleet = service.balancer.fleet
        async with runtime.enrolling(service.control) as registered:
            assert registered.balancer_id == "balancer-1"
            assert registered.suspect_after_ms == 1000
            await until(lambda: fleet.reports.taken >= 2)
            await runtime.start_leg("call-1")
            await until(lambda: fleet.books.active == 1)
            assert fleet.view.row(0).facts.ineligible == ""
        await until(lambda: fleet.view.row(0).facts.ineligible != "", within_s=2.0)  # requirement F3
        assert fleet.books.active == 1  # the grace
        await until(lambda: fleet.books.totals.runtime_lost == 1)
        assert fleet.books.active == 0
        await until(lambda: len(fleet.membership) == 0)  # the lease
        assert fleet.books.totals.runtime_lost == 1
        assert fleet.books.is_balanced


async def test_goodbye_is_not_a_loss() -> None:
    runtime = FakeRuntime("r1")
    async with running() as service, runtime.listening():
        async with runtime.enrolling(service.control):
            await runtime.goodbye()
            await until(lambda: service.balancer.fleet.view.row(0).facts.state.value == "offline")
        await until(lambda: len(service.balancer.fleet.membership) == 0, within_s=2.0)


async def test_a_newer_life_takes_over_and_the_older_is_told() -> None:
    old, new = FakeRuntime("r1"), FakeRuntime("r1", incarnation=2)
    async with running() as service, old.listening(), new.listening(), old.enrolling(service.control):
        await old.start_leg("call-1")
        await until(lambda: service.balancer.fleet.books.active == 1)
        call = old.enrolled
        async with new.enrolling(service.control):
            with anyio.fail_after(5):
                code = await call.code()
            assert code is grpc.StatusCode.ABORTED
            assert service.balancer.fleet.books.totals.runtime_lost == 1
            assert service.balancer.fleet.view.row(0).facts.incarnation == 2
            error = await refusal(service.control)
            assert error.code() is grpc.StatusCode.ALREADY_EXISTS
            assert "newer" in (error.details() or "")


async def test_leg_events_that_come_together_are_taken_in_their_order() -> None:
    runtime = FakeRuntime("r1")
    async with running() as service, runtime.listening(), runtime.enrolling(service.control):
        leg = registry_pb2.LegIdentity(session_id="call-1", epoch=1)
        events = [
            registry_pb2.LegEvent(leg=leg, change=registry_pb2.LEG_CHANGE_STARTED, ledger_version=1),
            registry_pb2.LegEvent(leg=leg, change=registry_pb2.LEG_CHANGE_ENDED, reason="drained", ledger_version=2),
        ]
        runtime.ledger_version, runtime.started = 2, 1
        await runtime.tell(registry_pb2.EnrollRequest(legs=registry_pb2.LegEvents(events=events)))
        books = service.balancer.fleet.books
        await until(lambda: dict(books.totals.ended) == {"drained": 1})
        assert (books.active, books.totals.started, books.totals.gaps) == (0, 1, 0)


async def test_missing_leg_events_end_the_stream_and_the_next_enrolment_heals() -> None:
    runtime = FakeRuntime("r1")
    async with running() as service, runtime.listening():
        async with runtime.enrolling(service.control):
            call = runtime.enrolled
            runtime.ledger_version += 2  # a call that began and ended and that nobody was told of
            runtime.started += 1
            await runtime.start_leg("call-1")
            with anyio.fail_after(5):
                assert await call.code() is grpc.StatusCode.ABORTED
        async with runtime.enrolling(service.control):
            await until(lambda: service.balancer.fleet.books.active == 1)
            await until(lambda: service.balancer.fleet.view.row(0).facts.ineligible == "")
            await until(lambda: service.balancer.fleet.books.is_balanced)
            assert (service.balancer.fleet.books.totals.started, service.balancer.fleet.books.totals.unheard) == (1, 1)


async def test_reports_are_watched_again_after_the_watch_broke() -> None:
    runtime = FakeRuntime("r1")
    async with running() as service, runtime.listening(), runtime.enrolling(service.control):
        await until(lambda: service.balancer.fleet.reports.taken >= 1)
        runtime.break_watch = True
        await until(lambda: "report watch ended" in service.log.getvalue())
        taken = service.balancer.fleet.reports.taken
        await until(lambda: service.balancer.fleet.reports.taken > taken + 1)
