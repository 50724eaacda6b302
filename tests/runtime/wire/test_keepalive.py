"""Both ends of a gRPC stream notice that the network between them lost everything."""

from __future__ import annotations

from typing import Any

import anyio
import grpc
import pytest
from grpc import aio

from perf.faults.silent_hop import silent_hop
from runtime.wire.keepalive import probing

pytestmark = pytest.mark.anyio
_NEVER_MS = 1_000_000
_WITHIN_S = 15.0
"""Far below the minute that a ping has by default."""


@pytest.mark.parametrize("prober", ["client", "server"])
async def test_a_silent_peer_is_found(prober: str) -> None:
    quick, never = probing(200, 500), probing(_NEVER_MS, _NEVER_MS)
    begun, lost = anyio.Event(), anyio.Event()

    async def hold(_: bytes, context: aio.ServicerContext[bytes, bytes]) -> bytes:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            lost.set()
        return b""

    methods: Any = {"Hold": grpc.unary_unary_rpc_method_handler(hold)}  # Any: the stubs know only the blocking form
    server = aio.server(options=quick if prober == "server" else never)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("t", methods)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    options = (*(quick if prober == "client" else never), ("grpc.use_local_subchannel_pool", 1))
    try:
        async with silent_hop(f"127.0.0.1:{port}") as hop, aio.insecure_channel(hop.address, options=options) as channel:
            method: Any = channel.unary_unary("/t/Hold")  # Any: bytes both ways, which the stubs do not know
            call = method(b"")
            with anyio.fail_after(_WITHIN_S):
                await begun.wait()
                hop.fall_silent()
                if prober == "client":
                    assert await call.code() is grpc.StatusCode.UNAVAILABLE
                else:
                    await lost.wait()
                    call.cancel()
    finally:
        await server.stop(0)
