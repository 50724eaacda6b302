"""A stock gRPC client reads our runtimes out of band and prefers the idler one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from google.protobuf import duration_pb2
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from protos.switchboard.v1 import voice_pb2, voice_pb2_grpc
from protos.xds.service.orca.v3 import orca_pb2, orca_pb2_grpc
from runtime.load.orca_service import OrcaService
from runtime.primitives.load_snapshot import LegTotals, LoadSnapshot, RuntimeState
from tests.support.local_runtime import local_runtime, until

pytestmark = pytest.mark.anyio

_S = 1_000_000_000
_SNAPSHOT = LoadSnapshot("r", 1, 1, 0, 10 * _S, 0, 10, 0, 100, LegTotals(), RuntimeState.READY, utilisation=0.2)


class _Backend(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # grpc_health has no types
    """A gRPC server with our ORCA service and a unary method that counts who came."""

    def __init__(self, snapshot: LoadSnapshot) -> None:
        self.snapshot = snapshot
        self.calls = self.told = 0
        self.address = ""

    async def Check(self, request: object, context: object) -> health_pb2.HealthCheckResponse:
        self.calls += 1
        return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)

    def _was_told(self) -> None:
        self.told += 1

    @asynccontextmanager
    async def serving(self, minimum_s: float) -> AsyncIterator[None]:
        server = aio.server()
        orca = OrcaService(lambda: self.snapshot, minimum_s, self._was_told)
        orca_pb2_grpc.add_OpenRcaServiceServicer_to_server(orca, server)
        health_pb2_grpc.add_HealthServicer_to_server(self, server)
        self.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        try:
            yield
        finally:
            await server.stop(0)


async def test_the_asked_interval_is_honoured_down_to_the_minimum() -> None:  # requirement L1
    backend = _Backend(_SNAPSHOT)
    async with backend.serving(minimum_s=0.05), aio.insecure_channel(backend.address) as channel:
        stub = orca_pb2_grpc.OpenRcaServiceStub(channel)
        for asked_s, at_least_s in ((0.2, 0.2), (0.0, 0.05)):
            nanos = int(asked_s * _S)
            stream = stub.StreamCoreMetrics(orca_pb2.OrcaLoadReportRequest(report_interval=duration_pb2.Duration(nanos=nanos)))
            instants = []
            with anyio.fail_after(30):
                for _ in range(4):
                    await stream.read()
                    instants.append(anyio.current_time())
            stream.cancel()
            assert instants[3] - instants[1] >= 2 * at_least_s * 0.8


async def test_stock_weighted_round_robin_prefers_the_idler() -> None:  # requirement L1
    busy, idle = _Backend(replace(_SNAPSHOT, utilisation=0.8)), _Backend(replace(_SNAPSHOT, utilisation=0.2))
    policy = {
        "weighted_round_robin": {
            "enableOobLoadReport": True,
            "oobReportingPeriod": "0.2s",
            "blackoutPeriod": "0s",
            "weightUpdatePeriod": "0.1s",
        }
    }
    options = [("grpc.service_config", json.dumps({"loadBalancingConfig": [policy]}))]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(busy.serving(minimum_s=0.1))
        await stack.enter_async_context(idle.serving(minimum_s=0.1))
        target = f"ipv4:{busy.address},{idle.address}"
        stub = health_pb2_grpc.HealthStub(await stack.enter_async_context(aio.insecure_channel(target, options=options)))
        await stub.Check(health_pb2.HealthCheckRequest())
        await until(lambda: busy.told >= 5 and idle.told >= 5)  # reports; what the client makes of them is measured once
        before = busy.calls, idle.calls
        for _ in range(100):
            await stub.Check(health_pb2.HealthCheckRequest())
        assert busy.calls - before[0] + idle.calls - before[1] == 100
        assert 10 <= busy.calls - before[0] <= 30  # by the weights one in five


@asynccontextmanager
async def _tapped(address: str, heard: bytearray) -> AsyncIterator[str]:
    """A byte relay in front of a server that keeps what the server says: a gRPC client takes the report out of the trailers it
    shows, so only the wire can tell."""
    host, _, port = address.rpartition(":")

    async def relay(client: SocketStream) -> None:
        async with client, await anyio.connect_tcp(host, int(port)) as server, anyio.create_task_group() as group:
            group.start_soon(copy, client, server, None)
            await copy(server, client, heard)
            group.cancel_scope.cancel()

    async def copy(source: SocketStream, target: SocketStream, kept: bytearray | None) -> None:
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while True:
                data = await source.receive()
                if kept is not None:
                    kept += data
                await target.send(data)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, relay)
        yield f"127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        group.cancel_scope.cancel()


@pytest.mark.parametrize("says_goodbye", [True, False])
async def test_a_stream_ends_with_its_report(says_goodbye: bool) -> None:  # requirement L1
    heard = bytearray()
    async with AsyncExitStack() as stack:
        local = await stack.enter_async_context(local_runtime())
        address = await stack.enter_async_context(_tapped(local.runtime.grpc_address, heard))
        channel = await stack.enter_async_context(aio.insecure_channel(address))
        stream = voice_pb2_grpc.VoiceAgentStub(channel).Converse()
        pcm = voice_pb2.AudioFormat(encoding=voice_pb2.AUDIO_ENCODING_PCM16, sample_rate_hz=16_000)
        await stream.write(voice_pb2.ConverseRequest(config=voice_pb2.SessionConfig(input_format=pcm)))
        await stream.read()
        assert b"endpoint-load-metrics-bin" not in heard
        if says_goodbye:
            await stream.write(voice_pb2.ConverseRequest(end=voice_pb2.EndSession()))
        else:
            await stream.done_writing()
        with anyio.fail_after(20), contextlib.suppress(aio.AioRpcError):
            while await stream.read() is not aio.EOF:
                pass
        assert b"endpoint-load-metrics-bin" in heard
