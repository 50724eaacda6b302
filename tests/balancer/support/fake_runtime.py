"""A small runtime for the balancer's tests: it enrolls, reports, admits by ticket and echoes over a real WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import grpc
import websockets
from websockets.asyncio.server import ServerConnection, serve
from websockets.extensions.base import ServerExtensionFactory

from protos.switchboard.v1 import load_pb2, load_pb2_grpc, placement_pb2, placement_pb2_grpc, registry_pb2, registry_pb2_grpc
from runtime.wire.headers import EPOCH_HEADER, SESSION_HEADER, TICKET_HEADER

Handler = Callable[["FakeRuntime", ServerConnection], Any]  # Any: a coroutine


async def echo(runtime: FakeRuntime, connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(message)


@dataclass
class FakeRuntime(placement_pb2_grpc.PlacementServicer, load_pb2_grpc.LoadReportsServicer):
    runtime_id: str
    incarnation: int = 1
    hard_limit: int = 8
    utilisation: float = 0.1
    handler: Handler = echo
    refuse_with: int = 0
    """A RefusalReason number; 0 admits."""
    stays_silent: bool = False
    """Answers no reservation before `answer_now`."""
    answer_now: anyio.Event = field(default_factory=anyio.Event)
    refuse_upgrade: bool = False
    hold_upgrade: bool = False
    """Accepts the connection and never answers the upgrade."""
    is_stopped: bool = False
    """Its heartbeats do not come, as if the process were stopped."""
    refuse_release: bool = False
    break_watch: bool = False
    """The present load watch ends with an error, once."""
    agents: tuple[str, ...] = ("desk",)
    extensions: tuple[ServerExtensionFactory, ...] = ()
    """WebSocket extensions that it agrees to."""
    sequence: int = 0
    asked_to_drain: int = 0
    ledger_version: int = 0
    started: int = 0
    moved_in: int = 0
    moved_out: int = 0
    state: load_pb2.RuntimeState.ValueType = load_pb2.RUNTIME_STATE_READY
    live: dict[str, int] = field(default_factory=dict)
    tickets: dict[str, tuple[str, int]] = field(default_factory=dict)
    settled: dict[tuple[str, int], int] = field(default_factory=dict)
    released: list[placement_pb2.ReleaseRequest] = field(default_factory=list)
    reserved: list[placement_pb2.ReserveRequest] = field(default_factory=list)
    connections: list[ServerConnection] = field(default_factory=list)
    closes: list[tuple[int | None, str | None]] = field(default_factory=list)
    """(code, reason) of the close frame each connection got; (None, None): none."""
    websocket_address: str = ""
    grpc_address: str = ""
    enrolled: Any = None  # Any: the stream call, while enrolled
    held: anyio.Event = field(default_factory=anyio.Event)
    """An upgrade waits for its answer."""
    writing: anyio.Lock = field(default_factory=anyio.Lock)
    news: anyio.Condition = field(default_factory=anyio.Condition)

    # Load

    def snapshot(self) -> load_pb2.LoadSnapshot:
        self.sequence += 1
        return load_pb2.LoadSnapshot(
            runtime_id=self.runtime_id,
            incarnation=self.incarnation,
            sequence=self.sequence,
            ledger_version=self.ledger_version,
            active=len(self.live),
            reserved=len(self.tickets),
            hard_limit=self.hard_limit,
            totals=load_pb2.LegTotals(
                started=self.started,
                moved_in=self.moved_in,
                moved_out=self.moved_out,
                ended={"closed_by_caller": self.started + self.moved_in - self.moved_out - len(self.live)},
            ),
            utilisation=self.utilisation,
            state=self.state,
            admitted_upto=[
                load_pb2.AdmittedUpto(balancer_id=key[0], balancer_incarnation=key[1], placement_number=number)
                for key, number in self.settled.items()
            ],
        )

    async def Watch(self, request: load_pb2.WatchRequest, context: Any) -> AsyncIterator[load_pb2.LoadSnapshot]:
        while True:
            yield self.snapshot()
            if self.break_watch:
                self.break_watch = False
                await context.abort(grpc.StatusCode.UNAVAILABLE, "broken")
            with anyio.move_on_after(0.1):
                async with self.news:
                    await self.news.wait()

    # Placement

    async def Reserve(self, request: placement_pb2.ReserveRequest, context: Any) -> placement_pb2.ReserveResponse:
        self.reserved.append(request)
        if self.stays_silent:
            await self.answer_now.wait()
        if request.session_id in self.live:
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, "live here")
        answer = placement_pb2.ReserveResponse()
        if self.refuse_with:
            answer.refused.reason = self.refuse_with  # type: ignore[assignment]
            answer.refused.retry_after_ms = 1500
            answer.refused.message = "as told"
        else:
            ticket = f"ticket-{request.session_id}-{request.epoch}"
            self.tickets[ticket] = (request.session_id, request.epoch)
            answer.admitted.ticket = ticket
            answer.admitted.ticket_ttl_ms = 2000
        self.settled[request.balancer_id, request.balancer_incarnation] = request.placement_number
        answer.load.CopyFrom(self.snapshot())
        return answer

    async def Release(self, request: placement_pb2.ReleaseRequest, context: Any) -> placement_pb2.ReleaseResponse:
        self.released.append(request)
        if self.refuse_release:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "deaf")
        held = self.tickets.pop(request.ticket or f"ticket-{request.session_id}-{request.epoch}", None)
        async with self.news:
            self.news.notify_all()
        return placement_pb2.ReleaseResponse(released=held is not None, load=self.snapshot())

    # WebSocket

    async def _connected(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        headers = connection.request.headers
        self.tickets.pop(headers[TICKET_HEADER], None)
        session_id, epoch = headers[SESSION_HEADER], int(headers[EPOCH_HEADER])
        self.connections.append(connection)
        await self.start_leg(session_id, epoch, is_adoption=self._is_adoption(session_id, epoch))
        try:
            with contextlib.suppress(websockets.ConnectionClosed):
                await self.handler(self, connection)
            await connection.wait_closed()
        finally:
            got = connection.protocol.close_rcvd
            self.closes.append((None, None) if got is None else (got.code, got.reason))
            reason = "closed_by_caller" if got is not None else "connection_lost"
            await self.end_leg(session_id, reason)

    async def _request(self, connection: ServerConnection, request: Any) -> Any:
        if self.hold_upgrade:
            self.held.set()
            await connection.wait_closed()
        return connection.respond(503, "no") if self.refuse_upgrade else None

    # Legs

    def _is_adoption(self, session_id: str, epoch: int) -> bool:
        adoption = placement_pb2.PLACEMENT_KIND_ADOPTION
        return any((each.session_id, each.epoch, each.kind) == (session_id, epoch, adoption) for each in self.reserved)

    async def start_leg(self, session_id: str, epoch: int = 1, *, is_adoption: bool = False) -> None:
        self.live[session_id] = epoch
        if is_adoption:
            self.moved_in += 1
        else:
            self.started += 1
        change = registry_pb2.LEG_CHANGE_MOVED_IN if is_adoption else registry_pb2.LEG_CHANGE_STARTED
        await self._leg(session_id, epoch, change, "")

    async def move_leg_out(self, session_id: str) -> None:
        epoch = self.live.pop(session_id)
        self.moved_out += 1
        await self._leg(session_id, epoch, registry_pb2.LEG_CHANGE_MOVED_OUT, "")

    async def end_leg(self, session_id: str, reason: str) -> None:
        epoch = self.live.pop(session_id, None)
        if epoch is not None:
            await self._leg(session_id, epoch, registry_pb2.LEG_CHANGE_ENDED, reason)

    async def _leg(self, session_id: str, epoch: int, change: Any, reason: str) -> None:
        self.ledger_version += 1
        leg = registry_pb2.LegIdentity(session_id=session_id, epoch=epoch)
        event = registry_pb2.LegEvent(leg=leg, change=change, reason=reason, ledger_version=self.ledger_version)
        async with self.writing:  # in the order of their versions: the lock is fair
            if self.enrolled is not None:
                with contextlib.suppress(grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
                    await self.enrolled.write(registry_pb2.EnrollRequest(leg=event))
        async with self.news:
            self.news.notify_all()

    # Enrolment

    def registration(self) -> registry_pb2.Register:
        return registry_pb2.Register(
            runtime_id=self.runtime_id,
            incarnation=self.incarnation,
            websocket_address=self.websocket_address,
            grpc_address=self.grpc_address,
            agents=self.agents,
            abilities=["tools"],
            region="eu",
            version="1.2",
            sdk_version="0.1.0",
            hard_limit=self.hard_limit,
            state=self.state,
            ledger_version=self.ledger_version,
            live=[registry_pb2.LegIdentity(session_id=name, epoch=epoch) for name, epoch in self.live.items()],
        )

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[FakeRuntime]:
        server = grpc.aio.server()
        placement_pb2_grpc.add_PlacementServicer_to_server(self, server)
        load_pb2_grpc.add_LoadReportsServicer_to_server(self, server)
        self.grpc_address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        try:
            async with serve(
                self._connected, "127.0.0.1", 0, process_request=self._request, compression=None, close_timeout=1,
                subprotocols=[websockets.Subprotocol("realtime")], select_subprotocol=lambda _connection, _offers: None,
                max_size=2**24, extensions=self.extensions,
            ) as web:  # fmt: skip
                host, port = next(iter(web.sockets)).getsockname()[:2]
                self.websocket_address = f"{host}:{port}"
                yield self
        finally:
            await server.stop(None)

    @contextlib.asynccontextmanager
    async def enrolling(self, control: str) -> AsyncIterator[registry_pb2.Registered]:
        """Enrolled with heartbeats until left; leaving breaks the stream without goodbye."""
        async with grpc.aio.insecure_channel(control) as channel, anyio.create_task_group() as tasks:
            call = registry_pb2_grpc.RegistryStub(channel).Enroll()
            await call.write(registry_pb2.EnrollRequest(register=self.registration()))
            first = await call.read()
            assert isinstance(first, registry_pb2.EnrollResponse)
            self.enrolled = call
            tasks.start_soon(self._beat, call)
            try:
                yield first.registered
            finally:
                self.enrolled = None
                tasks.cancel_scope.cancel()
                call.cancel()

    async def _beat(self, call: Any) -> None:
        number = 0
        while True:
            number += 1
            if self.is_stopped:
                await anyio.sleep(0.02)
                continue
            try:
                async with self.writing:
                    await call.write(registry_pb2.EnrollRequest(heartbeat=registry_pb2.Heartbeat(sequence=number)))
                answer = await call.read()
                while isinstance(answer, registry_pb2.EnrollResponse) and answer.HasField("drain"):
                    self.asked_to_drain += 1
                    answer = await call.read()
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                return  # the balancer ended the stream
            await anyio.sleep(0.05)

    async def begin_to_drain(self) -> None:
        self.state = load_pb2.RUNTIME_STATE_DRAINING
        await self.tell(registry_pb2.EnrollRequest(state=registry_pb2.StateChange(state=self.state)))

    async def goodbye(self) -> None:
        state = registry_pb2.StateChange(state=load_pb2.RUNTIME_STATE_OFFLINE)
        await self.tell(registry_pb2.EnrollRequest(state=state))

    async def tell(self, message: registry_pb2.EnrollRequest) -> None:
        """Never beside a heartbeat: of two writes at once grpc fails one, takes the call for ended, and leaves the balancer's end
        open, whatever is cancelled afterwards."""
        async with self.writing:
            await self.enrolled.write(message)
