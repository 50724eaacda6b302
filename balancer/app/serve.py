"""Runs a balancer until it is told to stop: listeners, tasks, signals, and an orderly end."""

from __future__ import annotations

import json
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TextIO

import anyio
import anyio.abc
import anyio.lowlevel
import structlog
import uvicorn

from balancer.app.listeners import bind_grpc, bracketed, listen_on, make_grpc
from balancer.app.settings import BalancerSettings
from balancer.app.wiring import Balancer, wire
from balancer.dashboard.impatient_protocol import ImpatientProtocol
from balancer.dashboard.operator_app import operator_app
from protos.switchboard.v1 import assignment_pb2_grpc, registry_pb2_grpc

__all__ = ["serve"]


async def serve(settings: BalancerSettings, log: structlog.typing.FilteringBoundLogger, out: TextIO) -> None:
    """Returns after SIGTERM or SIGINT and the drain. Raises PortUnavailable before anything is announced.

    When all ports listen, one JSON line on `out` names them.
    """
    balancer = wire(settings, log)
    public = listen_on("public_port", settings.public_host, settings.public_port)
    operator = listen_on("operator_port", settings.operator_host, settings.operator_port)
    control = make_grpc()
    registry_pb2_grpc.add_RegistryServicer_to_server(balancer.registry, control)
    doors = make_grpc(settings.max_connections, settings.max_frame_bytes)
    assignment_pb2_grpc.add_AssignmentsServicer_to_server(balancer.assignments, doors)
    doors.add_generic_rpc_handlers((balancer.grpc_door.handler,))
    control_address = bind_grpc(control, "control_port", settings.control_host, settings.control_port)
    doors_address = bind_grpc(doors, "public_grpc_port", settings.public_host, settings.grpc_port)
    await control.start()
    await doors.start()
    ready = {
        "event": "ready",
        "public": f"http://{_address(public)}",
        "operator": f"http://{_address(operator)}",
        "control": control_address,
        "public_grpc": doors_address,
    }

    def announce() -> None:
        print(json.dumps(ready), file=out, flush=True)  # the one line that tools read
        log.info("ready", **{name: address for name, address in ready.items() if name != "event"})

    try:
        async with anyio.create_task_group() as tasks:
            # Signals are watched before the announcement: whoever read it may stop us at once.
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                await _start(tasks, balancer, public, operator, announce)
                log.info("stopping", cause=await _cause_to_stop(signals, settings.leave_with_stdin))
            balancer.placer.is_closing = True
            await balancer.front.drain(settings.drain_timeout_s)
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(5.0):
            await doors.stop(grace=0.5)
            await control.stop(grace=0.5)
            await balancer.channels.close_all()
    log.info("stopped")


async def _start(
    tasks: anyio.abc.TaskGroup,
    balancer: Balancer,
    public: socket.socket,
    operator: socket.socket,
    announce: Callable[[], None],
) -> None:
    listening = anyio.Event()
    tasks.start_soon(_for_ever, "the sweep", balancer.sweep.run)
    tasks.start_soon(_for_ever, "the releases", balancer.releases.run)
    if balancer.journal is not None:
        tasks.start_soon(_for_ever, "the journal", balancer.journal.run)
    tasks.start_soon(_for_ever, "the public port", balancer.front.run, public, listening.set)
    tasks.start_soon(_for_ever, "the operator port", _operate, balancer, operator)
    await listening.wait()
    announce()


async def _cause_to_stop(signals: AsyncIterator[signal.Signals], leave_with_stdin: bool) -> str:
    """The first of: a signal; where we are told to mind it, the end of standard input, which whoever started us holds open."""
    causes: list[str] = []
    async with anyio.create_task_group() as waiting:

        async def wait_for_signal() -> None:
            async for number in signals:
                causes.append(signal.Signals(number).name)
                waiting.cancel_scope.cancel()
                return

        waiting.start_soon(wait_for_signal)
        if leave_with_stdin:
            await anyio.wait_readable(sys.stdin)
            causes.append("standard input has ended")
            waiting.cancel_scope.cancel()
    return causes[0]


async def _for_ever(what: str, run: Callable[..., Awaitable[None]], *arguments: object) -> None:
    """A part that ends while the balancer serves takes the balancer with it: a process that looks alive and is not is worse."""
    await run(*arguments)
    await anyio.lowlevel.checkpoint()  # raises where we are being stopped, which is how these parts end
    raise RuntimeError(f"{what} ended while the balancer was serving")


async def _operate(balancer: Balancer, listener: socket.socket) -> None:
    """The operators' HTTP server. uvicorn's own signal handling is not used: signals are ours."""
    app = operator_app(balancer.documents, balancer.clock, balancer.metrics.render, balancer.controls)
    config = uvicorn.Config(
        app,
        http=ImpatientProtocol,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
        limit_concurrency=256,
    )
    server = uvicorn.Server(config)
    if not config.loaded:
        config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])
    try:
        await server.main_loop()
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(2.0):
            await server.shutdown(sockets=[listener])


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"{bracketed(host)}:{port}"
