"""Runs a relay process: the public port, which it may share with others, for a control elsewhere."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
from typing import TextIO

import anyio
import structlog

from balancer.app.front_settings import front_rule
from balancer.app.listeners import bind_grpc, listen_on, make_grpc
from balancer.app.process_life import GOODBYE_S, address_of, cause_to_stop, for_ever, operate
from balancer.app.public_tls import public_tls
from balancer.app.settings import BalancerSettings
from balancer.app.wiring import new_nonce, new_session_id
from balancer.dashboard.relay_app import relay_app
from balancer.fleet.channels import RuntimeChannels
from balancer.front.assignment_service import AssignmentService
from balancer.front.front_server import FrontServer
from balancer.front.grpc_door import GrpcDoor
from balancer.relays.control_link import ControlLink, RelayIdentity
from balancer.relays.remote_placer import RemotePlacer
from balancer.telemetry.metrics import FrontNumbers
from balancer.telemetry.relay_metrics import RelayMetrics
from protos.switchboard.v1 import assignment_pb2_grpc
from runtime.primitives.clock import MonotonicClock
from runtime.primitives.rng import SeededRng

__all__ = ["serve_relay"]


async def serve_relay(settings: BalancerSettings, log: structlog.typing.FilteringBoundLogger, out: TextIO) -> None:
    """Returns after SIGTERM or SIGINT and the drain. Raises PortUnavailable or SettingError before anything is announced.

    The control need not be there: callers are refused until it is.
    """
    tls = public_tls(settings, log)
    clock, rng, channels, metrics = MonotonicClock(), SeededRng(), RuntimeChannels(), RelayMetrics()
    public = listen_on("public_port", settings.public_host, settings.public_port, is_shared=True)
    operator = listen_on("operator_port", settings.operator_host, settings.operator_port)
    identity = RelayIdentity(settings.relay_id or _name(), secrets.randbits(63) + 1, address_of(operator))
    link = ControlLink(settings.control_address, channels, identity, clock, rng, log)
    placer = RemotePlacer(link)
    front = FrontServer(
        placer, lambda: link.is_ready, front_rule(settings), clock, rng, new_session_id, log, metrics, link.is_leaving
    )
    link.side = front.calls
    metrics.attach(FrontNumbers(front.statistics, front.calls.move_counts), lambda: (link.standing is not None, link.attached))
    doors = make_grpc(settings.max_connections, settings.max_frame_bytes, is_shared=True)
    assignment_pb2_grpc.add_AssignmentsServicer_to_server(AssignmentService(placer, new_session_id, log), doors)
    door = GrpcDoor(placer, front, settings.head_timeout_ms / 1000, new_session_id, new_nonce, log)
    doors.add_generic_rpc_handlers((door.handler,))
    credentials = None if tls is None else tls.credentials()
    ready = {
        "event": "ready",
        "role": settings.role,
        "relay_id": identity.relay_id,
        "public": f"{'http' if tls is None else 'https'}://{address_of(public)}",
        "operator": f"http://{address_of(operator)}",
        "public_grpc": bind_grpc(
            doors, "public_grpc_port", settings.public_host, settings.grpc_port, credentials, is_shared=True
        ),
    }
    await doors.start()
    try:
        async with anyio.create_task_group() as tasks:
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                listening = anyio.Event()
                if tls is not None:
                    tasks.start_soon(for_ever, "the certificate", tls.watch)
                context = None if tls is None else tls.context
                tasks.start_soon(for_ever, "the public port", front.run, public, listening.set, context)
                tasks.start_soon(
                    for_ever, "the operator port", operate, relay_app(metrics.render, lambda: link.is_ready), operator
                )
                tasks.start_soon(for_ever, "the link to the control", link.run)
                await listening.wait()
                print(json.dumps(ready), file=out, flush=True)  # the one line that tools read
                log.info("ready", **{name: address for name, address in ready.items() if name != "event"})
                log.info("stopping", cause=await cause_to_stop(signals, settings.leave_with_stdin))
            placer.is_closing = True
            tasks.start_soon(doors.stop, settings.drain_timeout_s + GOODBYE_S)  # new calls go to the others on the port
            await front.drain(settings.drain_timeout_s)
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(5.0):
            await doors.stop(grace=0.5)
            await channels.close_all()
    log.info("stopped")


def _name() -> str:
    """Letters, digits, `.` and `-`: what a host may be called, and its process."""
    return f"{socket.gethostname()[:48]}-{os.getpid()}"
