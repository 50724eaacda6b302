"""The bare streams of the benchmark are what a grpc server takes for a client's."""

from __future__ import annotations

import asyncio
from functools import partial

import grpc
import pytest
from grpc import aio

from perf.bench.grpc_traffic import PAYLOAD_BYTES, StreamCaller
from protos.switchboard.v1 import voice_pb2 as pb
from tests.balancer.support.running import until

pytestmark = pytest.mark.anyio


class _Caller(StreamCaller):
    is_lost = False

    def connection_lost(self, _error: Exception | None) -> None:
        self.is_lost = True


def _are(answered: list[StreamCaller], count: int) -> bool:
    return len(answered) == count


async def test_the_caller_is_a_grpc_client_and_begins_with_a_configuration() -> None:
    heard: list[bytes] = []

    async def echo(_requests: object, context: aio.ServicerContext[bytes, bytes]) -> None:
        while isinstance(message := await context.read(), bytes):
            heard.append(message)
            await context.write(message)

    server = aio.server()
    method: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(echo)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("switchboard.v1.VoiceAgent", {"Converse": method}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    opened: list[bool] = []
    answered: list[StreamCaller] = []
    _, caller = await asyncio.get_running_loop().create_connection(
        lambda: _Caller(lambda: opened.append(True), answered.append), "127.0.0.1", port
    )
    await until(lambda: bool(opened))
    for number in range(300):  # over the window that grpc opens at first
        caller.send(number)
        await until(partial(_are, answered, number + 1))
    caller.transport.abort()
    await until(lambda: caller.is_lost)
    await server.stop(None)
    assert {len(message) for message in heard} == {PAYLOAD_BYTES}
    assert pb.ConverseRequest.FromString(heard[0]).HasField("config")
