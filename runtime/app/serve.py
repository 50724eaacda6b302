"""A runtime process from start to end: listen, load, become ready, serve, drain, leave.

Order of the end (requirement C1, later with moves): take nothing new and say so, let calls finish within the bound, end the rest
`drained`, say goodbye to the balancers, close the ports.
"""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import anyio
from anyio.abc import SocketListener, TaskGroup
from grpc_health.v1 import health, health_pb2
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from structlog.typing import FilteringBoundLogger

from protos.switchboard.v1 import registry_pb2
from runtime.app.listeners import bind, make_server, open_agent_check
from runtime.app.machine_memory import MachineMemory
from runtime.app.settings import RuntimeSettings
from runtime.app.shared_legs import SharedLegs
from runtime.app.starter import leave_for_sure, until_starter_is_gone
from runtime.app.wiring import Parts, engines_of, load_agent, wire
from runtime.app.worker_report import Reporter
from runtime.engines.loaded import LoadedEngines
from runtime.fleet.enrollment import Enrollment, Membership
from runtime.load.orca_service import OrcaService
from runtime.load.report_service import LoadReportService
from runtime.primitives.ids import SessionId
from runtime.primitives.load_snapshot import RuntimeState
from runtime.primitives.reasons import EndReason
from runtime.primitives.rng import SeededRng
from runtime.session.shared_shard import Shard
from runtime.telemetry.machine_metrics import MachineMetrics
from runtime.transport.agent_check import AgentCheck
from runtime.transport.converse_socket import ConverseSocket
from runtime.transport.http_server import HttpServer, listen
from runtime.transport.ops_endpoints import ops_routes
from runtime.transport.realtime_endpoint import RealtimeEndpoint
from runtime.transport.twilio_endpoint import TwilioEndpoint
from runtime.transport.websocket_door import WebSocketDoor
from runtime.wire.signed_tickets import TicketKey

__all__ = ["SDK_VERSION", "Runtime", "serve"]

SDK_VERSION = "0.1.0"
_KNOWN_S = 5.0
_BEYOND_DRAIN_S = 30.0
"""By then the slowest orderly end is over."""


class Runtime:
    """One runtime in one event loop. Making it binds the gRPC port; raises OSError where that is taken.

    Attributes:
        http_address, grpc_address, agent_check_address: what is advertised, host:port; the last is empty where it is off.
    """

    def __init__(self, parts: Parts, listener: socket.socket, log: FilteringBoundLogger) -> None:
        self._parts = parts
        self._log = log
        self._listener = listener
        self._reports = LoadReportService(parts.snapshot)
        self._health = health.aio.HealthServicer()
        self._enrollments: list[Enrollment] = []
        self._leaving = anyio.Event()
        host = parts.settings.advertise_host
        self.http_address = f"{host or parts.settings.http_host}:{listener.getsockname()[1]}"
        orca = OrcaService(parts.snapshot, parts.settings.orca_minimum_s, lambda: parts.metrics.report_told("orca"))
        self._server = make_server(parts, self._reports, orca, self._health)
        self.grpc_address = bind(self._server, parts.settings)
        self._agent_check = open_agent_check(parts.settings)
        self.agent_check_address = ""
        if self._agent_check is not None:
            self.agent_check_address = f"{host or parts.settings.http_host}:{self._agent_check.getsockname()[1]}"

    @property
    def parts(self) -> Parts:
        return self._parts

    def leave(self) -> None:
        """Begins the drain; `run` returns when it is over. Idempotent."""
        self._leaving.set()

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Serves until `leave`, then drains."""
        settings = self._parts.settings
        http = HttpServer(self._app(), settings.ping_interval_s, settings.first_message_s)
        await self._server.start()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._server.stop, 0.5)
            async with anyio.create_task_group() as group:
                group.start_soon(http.run, self._listener)
                group.start_soon(self._parts.meter.run)
                group.start_soon(self._parts.calls.expire_leases)
                group.start_soon(self._parts.desk.run)
                if self._agent_check is not None:
                    agent_check = await SocketListener.from_socket(self._agent_check)
                    line = AgentCheck(self._parts.snapshot, lambda: self._parts.metrics.report_told("agent_check"))
                    group.start_soon(agent_check.serve, line.answer)
                self._enroll(group)
                self._parts.meter.start_window()
                await self._become(RuntimeState.READY)
                await self._wait_until_known()
                on_ready()
                await self._leaving.wait()
                await self._drain()
                await http.stop()
                group.cancel_scope.cancel()

    async def _wait_until_known(self) -> None:
        """Ready means that calls can come: a balancer knows it. Where none answers, direct callers are served all the same."""
        if self._enrollments:
            with anyio.move_on_after(_KNOWN_S) as waiting:
                await self._reports.wait_until_told_ready()
            if waiting.cancelled_caught:
                self._log.warning("no balancer has asked for the load yet", waited_s=_KNOWN_S)

    async def _drain(self) -> None:
        parts = self._parts
        bound_s = parts.settings.drain_timeout_s
        self._log.info("draining", active=parts.ledger.active, bound_s=bound_s)
        await self._become(RuntimeState.DRAINING)
        with anyio.move_on_after(bound_s):
            await parts.calls.wait_until_empty()
        parts.calls.end_all(EndReason.DRAINED)
        with anyio.move_on_after(5.0):
            await parts.calls.wait_until_ended()
        await self._become(RuntimeState.OFFLINE)
        for enrollment in self._enrollments:
            await enrollment.flush()
        self._log.info("left", active=parts.ledger.active)

    async def _become(self, state: RuntimeState) -> None:
        self._parts.calls.state = state
        self._log.info("state", state=state)
        self._reports.state_changed()
        for enrollment in self._enrollments:
            enrollment.state_changed()
        serving = health_pb2.HealthCheckResponse.SERVING
        stopped = health_pb2.HealthCheckResponse.NOT_SERVING
        await self._health.set("", serving if state is RuntimeState.READY else stopped)

    def _enroll(self, group: TaskGroup) -> None:
        parts = self._parts
        settings = parts.settings
        membership = Membership(
            runtime_id=parts.runtime_id,
            incarnation=parts.incarnation,
            machine_id=parts.machine_id,
            websocket_address=self.http_address,
            grpc_address=self.grpc_address,
            region=settings.region,
            abilities=settings.abilities,
            agents=sorted(parts.calls.agent_names),
            version=settings.version,
            sdk_version=SDK_VERSION,
            cost_class=settings.cost_class,
            hard_limit=settings.hard_limit,
        )
        for address in settings.balancers:
            enrollment = Enrollment(
                address,
                membership,
                self._live,
                lambda: parts.calls.state,
                self.leave,
                self._registered,
                SeededRng(),
                self._log,
            )
            self._enrollments.append(enrollment)
            parts.legs.listeners.append(enrollment)
            group.start_soon(enrollment.run)

    def _registered(self, answer: registry_pb2.Registered) -> None:
        keys = [TicketKey(key.key_id, key.secret) for key in answer.ticket_keys]
        self._parts.ring.told(answer.balancer_id, keys)
        self._reports.state_changed()

    def _live(self) -> tuple[Sequence[tuple[SessionId, int]], int]:
        ledger = self._parts.ledger
        return [(leg.session_id, leg.epoch) for leg in ledger.live()], ledger.version

    def _app(self) -> Starlette:
        parts = self._parts
        door = WebSocketDoor(parts.calls, parts.places, parts.runtime_id, self._log)
        routes = ops_routes(lambda: parts.calls.state, parts.snapshot, parts.exposition)
        set_up = parts.settings
        twilio = TwilioEndpoint(
            door,
            set_up.first_message_s,
            set_up.twilio_auth_token,
            idle_timeout_ms=set_up.twilio_idle_timeout_ms,
            greets=set_up.twilio_greets,
        )
        wires = [
            WebSocketRoute("/v1/realtime", RealtimeEndpoint(door).answer),
            WebSocketRoute("/v1/converse", ConverseSocket(door, parts.desk, parts.settings.first_message_s).answer),
            WebSocketRoute("/v1/twilio", twilio.answer),
            WebSocketRoute("/v1/twilio/{agent}", twilio.answer),
        ]
        return Starlette(routes=[*routes, *wires])


async def serve(settings: RuntimeSettings, log: FilteringBoundLogger) -> None:
    """The whole life of a process. Raises SettingError, ModelUnavailable or OSError, each a clear line for the operator."""
    reporter = _reporter(settings)
    agent = load_agent(settings.agent)
    try:
        listener = listen(settings.http_host, settings.http_port)
    except OSError as error:
        wished = f"{settings.http_host}:{settings.http_port}"
        raise OSError(f"cannot listen on {wished} (http_host, http_port): {error.strerror}") from error
    with listener:
        engines: LoadedEngines = await anyio.to_thread.run_sync(engines_of, settings)
        try:
            parts = wire(settings, agent, engines, listener.getsockname()[1], log)
            runtime = Runtime(parts, listener, log.bind(runtime_id=parts.runtime_id))
            with _shard_of(settings) as held:
                if held is not None:
                    memory, shard = held
                    parts.legs.listeners.insert(0, SharedLegs(shard))
                    parts.metrics.registry.register(MachineMetrics(memory.totals))
                async with anyio.create_task_group() as group:
                    group.start_soon(_obey_signals, runtime)
                    if settings.leave_with_stdin:
                        group.start_soon(_leave_with_starter, runtime, log)
                    if reporter is not None:
                        group.start_soon(reporter.beat)
                    await runtime.run(on_ready=lambda: _announce(runtime, reporter))
                    group.cancel_scope.cancel()
        finally:
            engines.close()


def _reporter(settings: RuntimeSettings) -> Reporter | None:
    """A worker's line to its supervisor, and what else makes it a worker; None without a supervisor."""
    if settings.leave_with_stdin:
        leave_for_sure(settings.drain_timeout_s + _BEYOND_DRAIN_S)
    if settings.report_fd < 0:
        return None
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # whole lines of what the agent prints among those of the log
    return Reporter(settings.report_fd)


@contextmanager
def _shard_of(settings: RuntimeSettings) -> Iterator[tuple[MachineMemory, Shard] | None]:
    """The machine's shared memory and this worker's part of it, claimed while it serves; None without a supervisor."""
    if settings.shard < 0:
        yield None
        return
    memory = MachineMemory.attach(Path(settings.shared_memory))
    shard = memory.shard(settings.shard)
    shard.claim(os.getpid())
    yield memory, shard
    shard.release()  # not after a fault: then the legs that are left are the supervisor's to end


async def _leave_with_starter(runtime: Runtime, log: FilteringBoundLogger) -> None:
    await until_starter_is_gone()
    log.warning("standard input has ended")
    runtime.leave()


def _announce(runtime: Runtime, reporter: Reporter | None) -> None:
    """One JSON line, to the supervisor or on standard output: how tools learn the ports that the system chose."""
    ready = {
        "event": "ready",
        "runtime_id": runtime.parts.runtime_id,
        "http": f"http://{runtime.http_address}",
        "grpc": runtime.grpc_address,
        "agent_check": runtime.agent_check_address,
    }
    if reporter is not None:
        reporter.ready(ready)
        return
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()


async def _obey_signals(runtime: Runtime) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            runtime.leave()
