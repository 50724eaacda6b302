"""The report stream: the present at once, then by the interval, and at once on a change of state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import grpc
import pytest
from grpc import aio

from protos.switchboard.v1 import load_pb2 as pb
from protos.switchboard.v1 import load_pb2_grpc
from runtime.load.report_service import LoadReportService
from runtime.primitives.load_snapshot import LegTotals, LoadSnapshot, RuntimeState

pytestmark = pytest.mark.anyio


class _Source:
    def __init__(self) -> None:
        self.snapshot = LoadSnapshot("r", 1, 0, 0, 1, 0, 0, 0, 9, LegTotals(), RuntimeState.STARTING, 0.5)

    def take(self) -> LoadSnapshot:
        self.snapshot = replace(self.snapshot, sequence=self.snapshot.sequence + 1)
        return self.snapshot


@asynccontextmanager
async def _watched() -> AsyncIterator[tuple[_Source, LoadReportService, load_pb2_grpc.LoadReportsAsyncStub]]:
    source = _Source()
    service = LoadReportService(source.take)
    server = aio.server()
    load_pb2_grpc.add_LoadReportsServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            with anyio.fail_after(20):
                yield source, service, load_pb2_grpc.LoadReportsStub(channel)
    finally:
        with anyio.CancelScope(shield=True):
            await server.stop(None)
            # grpc.aio hands the last events of a call to the loop that made it, which must not be closed by then.
            await anyio.wait_all_tasks_blocked()


async def _next(stream: aio.UnaryStreamCall[pb.WatchRequest, pb.LoadSnapshot]) -> pb.LoadSnapshot:
    report = await stream.read()
    assert isinstance(report, pb.LoadSnapshot)
    return report


async def test_the_present_at_once_and_then_every_interval() -> None:
    async with _watched() as (_, __, stub):
        stream = stub.Watch(pb.WatchRequest(interval_ms=100))
        assert [(await _next(stream)).sequence for _ in range(4)] == [1, 2, 3, 4]
        stream.cancel()
        assert await stream.code() is grpc.StatusCode.CANCELLED


async def test_a_change_of_state_is_told_at_once_to_everyone() -> None:
    async with _watched() as (source, service, stub):
        streams = [stub.Watch(pb.WatchRequest(interval_ms=60_000)) for _ in range(3)]
        for stream in streams:
            await stream.read()
        for state, number in ((RuntimeState.READY, pb.RUNTIME_STATE_READY), (RuntimeState.DRAINING, pb.RUNTIME_STATE_DRAINING)):
            source.snapshot = replace(source.snapshot, state=state)
            service.state_changed()
            assert [(await _next(stream)).state for stream in streams] == [number] * 3
        await service.wait_until_told_ready()
        for stream in streams:
            stream.cancel()
            assert await stream.code() is grpc.StatusCode.CANCELLED


@pytest.mark.parametrize("interval_ms", [1, 99, 60_001])
async def test_an_interval_out_of_range_is_refused_by_name(interval_ms: int) -> None:
    async with _watched() as (_, __, stub):
        with pytest.raises(aio.AioRpcError) as refused:
            await stub.Watch(pb.WatchRequest(interval_ms=interval_ms)).read()
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert f"interval_ms is {interval_ms}; allowed: 100 to 60000" in str(refused.value.details())
