"""A whole balancer in this process on system-chosen ports, and waiting for facts with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

import anyio
import grpc

from balancer.app.listeners import make_grpc
from balancer.app.settings import BalancerSettings
from balancer.app.wiring import Balancer, wire
from balancer.telemetry.logs import make_logger
from protos.switchboard.v1 import assignment_pb2_grpc, registry_pb2_grpc, relay_control_pb2_grpc
from tests.balancer.support.fake_runtime import FakeRuntime

QUICK = BalancerSettings(
    heartbeat_interval_ms=50, heartbeat_misses=1, suspect_after_ms=1000, lease_ttl_ms=3000, lost_grace_ms=200,
    sweep_interval_ms=20, report_interval_ms=100, report_max_age_ms=5000, reserve_timeout_ms=1000,
)  # fmt: skip


@dataclass
class Running:
    balancer: Balancer
    control: str
    host: str
    port: int
    log: io.StringIO
    grpc: str
    """host:port where gRPC callers come."""
    stop_control: Callable[[], Awaitable[None]]
    """Runtimes and relays lose their streams, at once, and nobody else comes."""

    @property
    def url(self) -> str:
        return f"ws://{self.host}:{self.port}/v1/realtime"


@contextlib.asynccontextmanager
async def running(**changes: object) -> AsyncIterator[Running]:
    """`control_at`: host:port of its control; the rest are settings."""
    control_at = str(changes.pop("control_at", "127.0.0.1:0"))
    settings = replace(QUICK, **changes)  # type: ignore[arg-type]  # the fields of the settings
    log = io.StringIO()
    balancer = wire(settings, make_logger(log, "debug"))
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    listener.setblocking(False)
    host, port = listener.getsockname()
    control = grpc.aio.server()
    registry_pb2_grpc.add_RegistryServicer_to_server(balancer.registry, control)
    relay_control_pb2_grpc.add_RelayControlServicer_to_server(balancer.relays, control)
    control_port = control.add_insecure_port(control_at)
    await control.start()
    doors = make_grpc(settings.max_connections, settings.max_frame_bytes)
    assignment_pb2_grpc.add_AssignmentsServicer_to_server(balancer.assignments, doors)
    doors.add_generic_rpc_handlers((balancer.grpc_door.handler,))
    doors_port = doors.add_insecure_port("127.0.0.1:0")
    await doors.start()
    started = anyio.Event()
    faults: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(repr(context)))
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(balancer.sweep.run)
            tasks.start_soon(balancer.releases.run)
            tasks.start_soon(balancer.relays.run)
            if balancer.journal is not None:
                tasks.start_soon(balancer.journal.run)
            tasks.start_soon(balancer.front.run, listener, started.set)
            await started.wait()
            try:
                yield Running(
                    balancer, f"127.0.0.1:{control_port}", host, port, log, f"127.0.0.1:{doors_port}", lambda: control.stop(None)
                )
            finally:
                tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(5):
            await doors.stop(None)
            await control.stop(None)
            await balancer.channels.close_all()
        asyncio.get_running_loop().set_exception_handler(None)
    assert not faults, faults


@contextlib.asynccontextmanager
async def fleet_of(*runtimes: FakeRuntime, **settings: object) -> AsyncIterator[Running]:
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running(**settings))
        for runtime in runtimes:
            await stack.enter_async_context(runtime.listening())
            await stack.enter_async_context(runtime.enrolling(service.control))
        view = service.balancer.fleet.view
        await until(lambda: all(row.arrived_ns is not None for row in view.rows()) and len(view) == len(runtimes))
        yield service


async def until(fact: Callable[[], bool], within_s: float = 5.0) -> None:
    """Returns as soon as `fact` holds; fails when it does not in time. Looks between any two steps of the event loop."""
    with anyio.fail_after(within_s):
        while not fact():  # noqa: ASYNC110  # facts of many objects, most without an event of their own
            await anyio.sleep(0.005)
