"""The relay alone in a process of its own, placing every call on one given address: what perf.bench.relay measures.

`python -m perf.bench.relay_process HOST:PORT [splice|grpc] [shared] [--port N]` prints its port and serves until its input
closes. `shared`: others may listen on the same port.
`grpc` is the door for gRPC callers, in front of the same WebSocket runtimes.
`splice` moves bytes without looking at anything: what this event loop and machine cost before any relay work.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import cast

import anyio

from balancer.app.listeners import make_grpc
from balancer.front.front_rule import FrontRule
from balancer.front.front_server import FrontServer
from balancer.front.grpc_door import GrpcDoor
from balancer.placement.errors import PlacementRefused, RefusalCode
from balancer.placement.placement import Placement
from balancer.placement.reservation import Door
from balancer.routing.request import PlacementRequest
from balancer.telemetry.logs import make_logger
from balancer.telemetry.metrics import BalancerMetrics
from runtime.primitives.clock import MonotonicClock
from runtime.primitives.rng import SeededRng

_NONCE = b"the sample nonce"
"""What the callers of this measurement have in their upgrades: perf/peers/frames.c knows no other answer."""


class FixedPlacer:
    """Admits everybody at one address, without any I/O: reservations are not the relay's cost."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._number = 0

    async def place(self, request: PlacementRequest, _door: Door) -> Placement:
        self._number += 1
        return Placement(request, "bench", 1, self._address, self._address, "ticket", 2000, "fixed", False, self._number)

    async def place_again(self, failed: Placement, door: Door) -> Placement:
        return await self.place(failed.request, door)

    async def adopt(self, request: PlacementRequest, _lost: frozenset[tuple[str, int]]) -> Placement:
        return await self.place(request, Door.RELAY)

    def fail(self, _placement: Placement, detail: str) -> PlacementRefused:
        return PlacementRefused(RefusalCode.NO_CAPACITY, detail)

    def release(self, placement: Placement) -> None:
        pass

    def hold(self, session_id: str, epoch: int) -> None:
        pass

    def let_go(self, session_id: str) -> None:
        pass


class SpliceEnd(asyncio.Protocol):
    """Copies what comes to the other end; the caller's end dials when it is made."""

    def __init__(self, dial: Callable[[SpliceEnd], object] | None, other: SpliceEnd | None = None) -> None:
        self._dial = dial
        self.other = other
        self.early = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if self._dial is not None:
            self._dial(self)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self.early += data
        else:
            self.other.transport.write(data)

    def connection_lost(self, _error: Exception | None) -> None:
        if self.other is not None:
            self.other.transport.abort()


async def splice(address: str) -> None:
    loop = asyncio.get_running_loop()
    host, _, port = address.partition(":")

    async def join(caller: SpliceEnd) -> None:
        _, backend = await loop.create_connection(lambda: SpliceEnd(None, caller), host, int(port))
        backend.transport.write(caller.early)
        caller.other = backend

    async with anyio.create_task_group() as tasks:
        server = await loop.create_server(lambda: SpliceEnd(lambda caller: tasks.start_soon(join, caller)), "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        server.close()
        tasks.cancel_scope.cancel()


async def serve(address: str, port: int = 0, *, is_grpc: bool = False, is_shared: bool = False) -> None:
    clock = MonotonicClock()
    names = iter(range(10**9))
    log = make_logger(sys.stderr, "warning")
    placer = FixedPlacer(address)
    front = FrontServer(
        placer,
        lambda: True,
        FrontRule(),
        clock,
        SeededRng(1),
        lambda: f"bench-{next(names)}",
        log,
        BalancerMetrics(clock),
        lambda *_: False,
    )
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("127.0.0.1", 0 if is_grpc else port))
    listener.listen(1024)
    listener.setblocking(False)

    doors = make_grpc(most_bytes=FrontRule().relay.max_frame_bytes)
    door = GrpcDoor(placer, front, 5.0, lambda: f"bench-{next(names)}", lambda: _NONCE, log)
    doors.add_generic_rpc_handlers((door.handler,))
    doors_port = doors.add_insecure_port(f"127.0.0.1:{port}") if is_grpc else 0
    await doors.start()

    def started() -> None:
        print(doors_port or listener.getsockname()[1], flush=True)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(front.run, listener, started)
        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    if "splice" in sys.argv[2:]:
        anyio.run(splice, sys.argv[1], backend_options={"use_uvloop": True})
    else:
        wanted = int(sys.argv[sys.argv.index("--port") + 1]) if "--port" in sys.argv else 0
        anyio.run(
            partial(serve, is_grpc="grpc" in sys.argv[2:], is_shared="shared" in sys.argv[2:]),
            sys.argv[1],
            wanted,
            backend_options={"use_uvloop": True},
        )
