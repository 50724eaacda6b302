"""Runs a balancer until it is told to stop: listeners, tasks, signals, and an orderly end."""

from __future__ import annotations

import json
import signal
import socket
from typing import TextIO

import anyio
import anyio.abc
import structlog

from balancer.app.listeners import bind_grpc, listen_on, make_grpc
from balancer.app.process_life import GOODBYE_S, address_of, cause_to_stop, for_ever, operate
from balancer.app.public_tls import PublicTls, public_tls
from balancer.app.serve_relay import serve_relay
from balancer.app.settings import BalancerSettings
from balancer.app.wiring import Balancer, wire
from balancer.dashboard.operator_app import operator_app
from protos.switchboard.v1 import assignment_pb2_grpc, registry_pb2_grpc, relay_control_pb2_grpc

__all__ = ["serve"]


async def serve(settings: BalancerSettings, log: structlog.typing.FilteringBoundLogger, out: TextIO) -> None:
    """Returns after SIGTERM or SIGINT and the drain. Raises PortUnavailable or SettingError before anything is announced.

    When all ports listen, one JSON line on `out` names them.
    """
    if settings.role == "relay":
        await serve_relay(settings, log, out)
        return
    tls = public_tls(settings, log)
    balancer = wire(settings, log)
    has_callers = settings.role == "both"
    public = listen_on("public_port", settings.public_host, settings.public_port) if has_callers else None
    operator = listen_on("operator_port", settings.operator_host, settings.operator_port)
    control = make_grpc()
    registry_pb2_grpc.add_RegistryServicer_to_server(balancer.registry, control)
    relay_control_pb2_grpc.add_RelayControlServicer_to_server(balancer.relays, control)
    control_address = bind_grpc(control, "control_port", settings.control_host, settings.control_port)
    ready = {"event": "ready", "role": settings.role, "operator": f"http://{address_of(operator)}", "control": control_address}
    doors = None
    if public is not None:
        doors = make_grpc(settings.max_connections, settings.max_frame_bytes)
        assignment_pb2_grpc.add_AssignmentsServicer_to_server(balancer.assignments, doors)
        doors.add_generic_rpc_handlers((balancer.grpc_door.handler,))
        ready["public"] = f"{'http' if tls is None else 'https'}://{address_of(public)}"
        credentials = None if tls is None else tls.credentials()
        ready["public_grpc"] = bind_grpc(doors, "public_grpc_port", settings.public_host, settings.grpc_port, credentials)
        await doors.start()
    await control.start()
    try:
        async with anyio.create_task_group() as tasks:
            # Signals are watched before the announcement: whoever read it may stop us at once.
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                await _start(tasks, balancer, public, operator, tls)
                print(json.dumps(ready), file=out, flush=True)  # the one line that tools read
                log.info("ready", **{name: address for name, address in ready.items() if name != "event"})
                log.info("stopping", cause=await cause_to_stop(signals, settings.leave_with_stdin))
            balancer.placer.is_closing = True
            if doors is not None:
                tasks.start_soon(doors.stop, settings.drain_timeout_s + GOODBYE_S)
            await balancer.front.drain(settings.drain_timeout_s)
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(5.0):
            if doors is not None:
                await doors.stop(grace=0.5)
            await control.stop(grace=0.5)
            await balancer.channels.close_all()
    log.info("stopped")


async def _start(
    tasks: anyio.abc.TaskGroup,
    balancer: Balancer,
    public: socket.socket | None,
    operator: socket.socket,
    tls: PublicTls | None,
) -> None:
    """Returns when all listen. `public`: None where relays of their own have the callers."""
    operators = operator_app(balancer.documents, balancer.clock, balancer.metrics.render, balancer.controls)
    tasks.start_soon(for_ever, "the sweep", balancer.sweep.run)
    tasks.start_soon(for_ever, "the releases", balancer.releases.run)
    tasks.start_soon(for_ever, "the relays' desk", balancer.relays.run)
    if balancer.journal is not None:
        tasks.start_soon(for_ever, "the journal", balancer.journal.run)
    tasks.start_soon(for_ever, "the operator port", operate, operators, operator)
    if public is not None:
        listening = anyio.Event()
        if tls is not None:
            tasks.start_soon(for_ever, "the certificate", tls.watch)
        tasks.start_soon(
            for_ever, "the public port", balancer.front.run, public, listening.set, None if tls is None else tls.context
        )
        await listening.wait()
