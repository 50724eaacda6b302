"""Assignments over gRPC: the same places and refusals as over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import grpc
import httpx
import pytest
from grpc import aio

from protos.switchboard.v1 import assignment_pb2 as pb
from protos.switchboard.v1 import assignment_pb2_grpc, placement_pb2, voice_pb2, voice_pb2_grpc
from tests.balancer.support.fake_runtime import FakeRuntime
from tests.balancer.support.running import Running, fleet_of, running, until
from tests.support.local_runtime import DESK, enrolled_runtime

pytestmark = pytest.mark.anyio

PCM16_24K = voice_pb2.AudioFormat(encoding=voice_pb2.AUDIO_ENCODING_PCM16, sample_rate_hz=24_000)


@asynccontextmanager
async def door_of(service: Running) -> AsyncIterator[assignment_pb2_grpc.AssignmentsAsyncStub]:
    server = aio.server()
    assignment_pb2_grpc.add_AssignmentsServicer_to_server(service.balancer.assignments, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield assignment_pb2_grpc.AssignmentsStub(channel)
    finally:
        await server.stop(None)


async def by_http(service: Running, document: dict[str, Any]) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.post(f"http://{service.host}:{service.port}/v1/assignments", content=json.dumps(document))


async def test_a_grpc_caller_is_assigned_and_talks_without_a_relay() -> None:  # requirement D2
    async with enrolled_runtime(allow_direct="nowhere") as at, door_of(at.service) as door:
        given = await door.Assign(pb.AssignRequest(agent=DESK, tenant="acme"))
        assert (given.runtime_id, given.epoch, given.ticket_ttl_ms) == (at.local.parts.runtime_id, 1, 10_000)
        async with aio.insecure_channel(given.grpc_address) as channel:
            call = voice_pb2_grpc.VoiceAgentStub(channel).Converse(metadata=(("x-switchboard-ticket", given.ticket),))
            await call.write(voice_pb2.ConverseRequest(config=voice_pb2.SessionConfig(input_format=PCM16_24K)))
            with anyio.fail_after(20):
                first = await call.read()
                assert isinstance(first, voice_pb2.ConverseResponse)
                assert first.started.session_id == given.session_id
                await call.write(voice_pb2.ConverseRequest(end=voice_pb2.EndSession()))
                while isinstance(await call.read(), voice_pb2.ConverseResponse):
                    pass
                assert await call.code() is grpc.StatusCode.OK
        await at.local.until_empty()


async def test_the_same_place_is_given_again_on_either_wire() -> None:
    async with enrolled_runtime(allow_direct="nowhere") as at, door_of(at.service) as door:
        given = await door.Assign(pb.AssignRequest(session_id="mine"))
        again = await door.Assign(pb.AssignRequest(session_id="mine"))
        over_http = (await by_http(at.service, {"session_id": "mine"})).json()
        assert given.ticket == again.ticket == over_http["ticket"]
        assert given.grpc_address == over_http["grpc_address"]
        assert f"ws://{given.websocket_address}/v1/realtime" == over_http["websocket_url"]
        assert at.local.ledger.reserved == 1


@pytest.mark.parametrize(
    ("request_", "document", "status"),
    [
        (pb.AssignRequest(agent="other"), {"agent": "other"}, "NOT_FOUND"),
        (pb.AssignRequest(abilities=["sing"]), {"abilities": ["sing"]}, "FAILED_PRECONDITION"),
        (pb.AssignRequest(session_id="a b"), {"session_id": "a b"}, "INVALID_ARGUMENT"),
        (pb.AssignRequest(min_version="v1"), {"min_version": "v1"}, "INVALID_ARGUMENT"),
        (pb.AssignRequest(abilities=["x"] * 33), {"abilities": ["x"] * 33}, "INVALID_ARGUMENT"),
        (pb.AssignRequest(tenant="a b"), {"tenant": "a b"}, "INVALID_ARGUMENT"),
        (pb.AssignRequest(tenant="a" * 65), {"tenant": "a" * 65}, "INVALID_ARGUMENT"),
        (pb.AssignRequest(agent="a\nb"), {"agent": "a\nb"}, "INVALID_ARGUMENT"),
        (pb.AssignRequest(session_id="live"), {"session_id": "live"}, "ALREADY_EXISTS"),
        (pb.AssignRequest(region="full"), {"region": "full"}, "RESOURCE_EXHAUSTED"),
    ],
    ids=str,
)
async def test_refusals_are_those_of_http(request_: pb.AssignRequest, document: dict[str, Any], status: str) -> None:
    runtime = FakeRuntime("runtime-1")
    async with fleet_of(runtime) as service, door_of(service) as door:
        await runtime.start_leg("live")
        await until(lambda: service.balancer.fleet.books.where("live") is not None)
        if status == "RESOURCE_EXHAUSTED":
            runtime.refuse_with = placement_pb2.REFUSAL_REASON_LIMIT
        answer = await by_http(service, document)
        expected = answer.json()["error"]
        with pytest.raises(aio.AioRpcError) as refused:
            await door.Assign(request_)
        trailers = {str(key): value for key, value in refused.value.trailing_metadata() or ()}
        told = pb.AssignmentRefusal.FromString(trailers["refusal-bin"])  # type: ignore[arg-type]  # bytes by its name
        assert refused.value.code().name == status
        assert refused.value.details() == expected["message"] == told.message
        assert trailers["refusal-reason"] == expected["code"] == told.code
        runtimes_named = [(each["runtime_id"], each["reason"], each["detail"]) for each in expected.get("runtimes", ())]
        assert [(each.runtime_id, each.reason, each.detail) for each in told.runtimes] == runtimes_named
        assert told.retry_after_ms == expected.get("retry_after_s", 0) * 1000
        assert trailers.get("retry-after-ms", "0") == str(told.retry_after_ms)


async def test_an_unknown_priority_and_an_empty_fleet() -> None:
    async with running() as service, door_of(service) as door:
        with pytest.raises(aio.AioRpcError) as refused:
            await door.Assign(pb.AssignRequest(priority=9))  # type: ignore[arg-type]
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "priority is 9" in str(refused.value.details())
        with pytest.raises(aio.AioRpcError) as alone:
            await door.Assign(pb.AssignRequest())
        assert alone.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_caller_who_gives_up_leaves_nothing_held() -> None:
    slow = FakeRuntime("runtime-1", stays_silent=True)
    async with fleet_of(slow, reserve_timeout_ms=10_000) as service, door_of(service) as door:
        call = door.Assign(pb.AssignRequest(session_id="gone"))
        await until(lambda: len(slow.reserved) == 1)
        call.cancel()
        await until(lambda: service.balancer.placer.being_placed == 0)
        slow.answer_now.set()
        await until(lambda: len(slow.released) == 1)
        await until(lambda: not slow.tickets)
        assert service.balancer.placer.counts.abandoned == 1


async def test_a_request_that_is_too_long_is_refused() -> None:
    """The port takes messages of a megabyte, for calls; an assignment has no use for them."""
    async with running() as service, aio.insecure_channel(service.grpc) as channel:
        with pytest.raises(aio.AioRpcError) as refused:
            await assignment_pb2_grpc.AssignmentsStub(channel).Assign(pb.AssignRequest(region="x" * 70_000))
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert dict(refused.value.trailing_metadata() or ())["refusal-reason"] == "body_too_large"
