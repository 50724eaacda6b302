"""The client's calls over gRPC: straight to the runtime, or through the balancer."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import grpc
import numpy as np
import pytest
from grpc import aio

from clients.call_events import CallEvent, CallStarted, Ended, ReplyDone
from clients.refusals import CallFailed, CallRefused
from clients.voice_call import VoiceCall, Way, open_call
from protos.switchboard.v1 import assignment_pb2, assignment_pb2_grpc, voice_pb2, voice_pb2_grpc
from runtime.primitives.reasons import EndReason
from tests.balancer.support.fake_runtime import FakeRuntime
from tests.balancer.support.running import fleet_of
from tests.support.local_runtime import DESK, enrolled_runtime, until

pytestmark = pytest.mark.anyio


async def _until(events: AsyncIterator[CallEvent], kind: type[CallEvent]) -> list[CallEvent]:
    told = []
    with anyio.fail_after(20):
        async for event in events:
            told.append(event)
            if isinstance(event, kind):
                return told
    raise AssertionError(f"the call ended before {kind.__name__}: {told[-5:]}")


async def _is_answered(call: VoiceCall) -> None:
    await call.type("hello")
    told = await _until(call.events(), ReplyDone)
    assert isinstance(told[0], CallStarted)
    assert told[0].session_id == call.session_id
    assert told[-1] == ReplyDone(1, "completed", "You said: hello.")


@pytest.mark.parametrize("way", Way)
async def test_a_call_goes_the_way_it_is_told(way: Way) -> None:  # requirement D1, D2
    async with enrolled_runtime(allow_direct="nowhere") as at:
        async with open_call(f"grpc://{at.service.grpc}", agent=DESK, session_id="mine", way=way) as call:
            assert (call.session_id, call.runtime_id) == ("mine", at.local.parts.runtime_id)
            assert len(at.service.balancer.front.calls) == (1 if way is Way.RELAY else 0)
            assert call.resume_token == ""
            await _is_answered(call)
        await at.local.until_ended(EndReason.CLOSED_BY_CALLER)


async def test_a_runtime_is_called_without_asking_anybody() -> None:
    async with enrolled_runtime() as at:
        async with open_call(f"grpc://{at.local.runtime.grpc_address}") as call:
            await call.send_audio(np.zeros(2400, np.int16))
            await _is_answered(call)
            await call.hang_up()
            assert [event async for event in call.events()][-1] == Ended("closed_by_caller")
            with pytest.raises(CallFailed, match="over"):
                await call.type("too late")
        await at.local.until_ended(EndReason.CLOSED_BY_CALLER)


async def test_where_the_runtime_cannot_be_reached_the_balancer_carries_the_call() -> None:
    class Door(assignment_pb2_grpc.AssignmentsServicer):
        async def Assign(self, _request: assignment_pb2.AssignRequest, _context: object) -> assignment_pb2.Assignment:
            return assignment_pb2.Assignment(session_id="held", runtime_id="far", grpc_address="127.0.0.1:9", ticket="ticket")

    class Relay(voice_pb2_grpc.VoiceAgentServicer):
        async def Converse(self, _requests: object, context: aio.ServicerContext[object, object]) -> None:  # type: ignore[override]
            first: object = await context.read()
            assert isinstance(first, voice_pb2.ConverseRequest)
            assert not any(key == "x-switchboard-ticket" for key, _ in context.invocation_metadata() or ())
            started = voice_pb2.SessionStarted(session_id=first.config.session_id, runtime_id="far")
            await context.write(voice_pb2.ConverseResponse(ordinal=1, started=started))

    server = aio.server()
    assignment_pb2_grpc.add_AssignmentsServicer_to_server(Door(), server)
    voice_pb2_grpc.add_VoiceAgentServicer_to_server(Relay(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with open_call(f"grpc://127.0.0.1:{port}") as call:
        assert (call.session_id, call.runtime_id) == ("held", "far")
    await server.stop(None)


@pytest.mark.parametrize("way", Way)
async def test_a_refusal_says_why(way: Way) -> None:
    async with enrolled_runtime() as at:
        with pytest.raises(CallRefused, match=r"gRPC NOT_FOUND \(unknown_agent\)") as refused:
            async with open_call(f"grpc://{at.service.grpc}", agent="nobody", way=way):
                pass
        assert (refused.value.status, refused.value.code) == (grpc.StatusCode.NOT_FOUND.value[0], "unknown_agent")
    async with fleet_of(FakeRuntime("one", refuse_with=1)) as service:
        with pytest.raises(CallRefused, match="RESOURCE_EXHAUSTED") as refused:
            async with open_call(f"grpc://{service.grpc}", way=way):
                pass
        assert refused.value.code == "no_capacity"
        assert refused.value.retry_after_s > 0
        assert [each["runtime_id"] for each in refused.value.runtimes] == ["one"]


@pytest.mark.parametrize("way", Way)
async def test_a_server_that_is_not_there_is_said(way: Way) -> None:
    with pytest.raises(CallFailed, match=r"cannot open a call.*UNAVAILABLE"):
        async with open_call("grpc://127.0.0.1:9", way=way):
            pass


async def test_a_call_that_breaks_is_a_failure() -> None:
    async with enrolled_runtime() as at, open_call(f"grpc://{at.service.grpc}", way=Way.RELAY) as call:
        events = call.events()
        await _until(events, CallStarted)
        at.local.runtime.leave()
        with pytest.raises(CallFailed, match="UNAVAILABLE: drained"), anyio.fail_after(20):
            await _until(events, ReplyDone)
        await until(lambda: at.local.ledger.active == 0)
