"""One runtime's membership at one balancer: registers, beats, names every leg that starts or ends, and comes back after a loss.

What cannot be told in order is told whole: if the stream breaks or the queue of leg events overflows, the next registration
carries every live leg.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Final, TypeAlias

import anyio
import grpc
from grpc import aio
from structlog.typing import FilteringBoundLogger

from protos.switchboard.v1 import registry_pb2 as pb
from protos.switchboard.v1 import registry_pb2_grpc
from runtime.codec.snapshot_message import STATE_NUMBERS
from runtime.primitives.backoff import Backoff
from runtime.primitives.ids import SessionId
from runtime.primitives.load_snapshot import CostClass, RuntimeState
from runtime.primitives.rng import Rng
from runtime.session.ledger import LegChange, LegEvent
from runtime.wire.keepalive import probing

__all__ = ["Enrollment", "Membership"]

_Stream: TypeAlias = aio.StreamStreamCall[pb.EnrollRequest, pb.EnrollResponse]
_QUEUE_LIMIT: Final = 4_096
_LEGS_AT_ONCE: Final = 256
_JITTER_SHARE: Final = 0.25
_CONNECT_S: Final = 5.0
_GOODBYE_S: Final = 1.0
_CHANGES: Final[Mapping[LegChange, pb.LegChange.ValueType]] = {
    LegChange.STARTED: pb.LEG_CHANGE_STARTED,
    LegChange.MOVED_IN: pb.LEG_CHANGE_MOVED_IN,
    LegChange.ENDED: pb.LEG_CHANGE_ENDED,
    LegChange.MOVED_OUT: pb.LEG_CHANGE_MOVED_OUT,
}


@dataclass(frozen=True, slots=True)
class Membership:
    """What a runtime says of itself when it registers; the ranges are in `registry.proto`."""

    runtime_id: str
    incarnation: int
    machine_id: str
    websocket_address: str
    grpc_address: str
    region: str
    abilities: Sequence[str]
    agents: Sequence[str]
    version: str
    sdk_version: str
    cost_class: CostClass
    hard_limit: int


class Enrollment:
    """Runs until cancelled. `leg_changed` and `state_changed` may be called at any time from the event loop.

    Args:
        address: host:port of the balancer's control side.
        live: every live leg and the ledger's version, at one instant.
        on_drain: the balancer asks this runtime to leave.
        on_registered: called at every registration with the balancer's answer, before a leg is told.
    """

    def __init__(
        self,
        address: str,
        membership: Membership,
        live: Callable[[], tuple[Sequence[tuple[SessionId, int]], int]],
        state: Callable[[], RuntimeState],
        on_drain: Callable[[], None],
        on_registered: Callable[[pb.Registered], None],
        rng: Rng,
        log: FilteringBoundLogger,
    ) -> None:
        self._address = address
        self._membership = membership
        self._live = live
        self._state = state
        self._on_drain = on_drain
        self._on_registered = on_registered
        self._rng = rng
        self._log = log.bind(balancer=address)
        self._waiting: deque[pb.EnrollRequest] = deque()
        self._overflowed = False
        self._arrived = anyio.Event()
        self._written = anyio.Event()
        self._interval_s = 1.0
        self._beats = 0

    @property
    def waiting(self) -> int:
        """Gauge: messages not yet written."""
        return len(self._waiting)

    def leg_changed(self, event: LegEvent) -> None:
        leg = pb.LegIdentity(session_id=event.session_id, epoch=event.epoch)
        message = pb.LegEvent(leg=leg, change=_CHANGES[event.change], reason=event.reason or "", ledger_version=event.version)
        self._queue(pb.EnrollRequest(leg=message))

    def state_changed(self) -> None:
        self._queue(pb.EnrollRequest(state=pb.StateChange(state=STATE_NUMBERS[self._state()])))

    def _queue(self, message: pb.EnrollRequest) -> None:
        if len(self._waiting) >= _QUEUE_LIMIT:
            self._overflowed = True  # the stream is broken off: the next registration tells the whole truth
        else:
            self._waiting.append(message)
        self._arrived.set()

    async def run(self) -> None:
        """Keeps the membership alive; every failure is followed by a jittered wait and a new registration."""
        backoff = Backoff(self._rng)
        while True:
            try:
                async with aio.insecure_channel(self._address, options=_CHANNEL_OPTIONS) as channel:
                    await self._enroll(channel, backoff)
            except* aio.AioRpcError as errors:
                self._log.warning("enrollment ended", detail=[str(error.details()) for error in _each(errors)])
            except* asyncio.InvalidStateError:  # grpc's word for writing to a stream that has just ended
                self._log.warning("enrollment ended", detail="the stream was closed")
            except* TimeoutError:
                self._log.warning("enrollment ended", detail="no answer from the balancer")
            await anyio.sleep(backoff.next_wait_s())

    async def _enroll(self, channel: aio.Channel, backoff: Backoff) -> None:
        with anyio.fail_after(_CONNECT_S):
            await channel.channel_ready()
        stream = registry_pb2_grpc.RegistryStub(channel).Enroll()
        self._waiting.clear()
        self._overflowed = False
        await stream.write(pb.EnrollRequest(register=self._register()))
        with anyio.fail_after(_CONNECT_S):
            answer = await stream.read()
        if not isinstance(answer, pb.EnrollResponse) or answer.WhichOneof("payload") != "registered":
            raise _refusal(await stream.code(), await stream.details())
        self._interval_s = max(0.05, answer.registered.heartbeat_interval_ms / 1000)
        self._log.info("enrolled", balancer_id=answer.registered.balancer_id)
        backoff.succeeded()
        self._on_registered(answer.registered)
        async with anyio.create_task_group() as group:
            # Whichever direction ends first takes the other with it. The stream is not cancelled from beside its reader: grpc
            # would answer the reader's next call with a CancelledError that is nobody's, and this task would end for good.
            group.start_soon(self._beat)
            group.start_soon(self._read, stream, group.cancel_scope)
            await self._write(stream)
            group.cancel_scope.cancel()

    async def _read(self, stream: _Stream, until_ended: anyio.CancelScope) -> None:
        while True:
            answer = await stream.read()
            if not isinstance(answer, pb.EnrollResponse):
                self._log.warning("enrollment ended", detail=(await stream.code()).name)
                until_ended.cancel()
                return
            if answer.WhichOneof("payload") == "drain":
                self._on_drain()

    async def _write(self, stream: _Stream) -> None:
        while not self._overflowed:
            while self._waiting:
                message, count = self._next()
                await stream.write(message)
                for _ in range(count):
                    self._waiting.popleft()
            self._written.set()
            self._arrived = anyio.Event()
            await self._arrived.wait()
        self._log.warning("enrollment ended", detail="more leg events than the queue holds; all are told anew")

    def _next(self) -> tuple[pb.EnrollRequest, int]:
        """What is written next, and how many waiting messages it is: leg events that follow each other travel together.

        A write takes a turn of the event loop or two, in which a busy runtime starts and ends several sessions: one write for
        each event fell seconds behind.
        """
        legs = [each.leg for each in takewhile(lambda each: each.HasField("leg"), islice(self._waiting, _LEGS_AT_ONCE))]
        if len(legs) < 2:
            return self._waiting[0], 1
        return pb.EnrollRequest(legs=pb.LegEvents(events=legs)), len(legs)

    async def _beat(self) -> None:
        while True:
            await anyio.sleep(self._interval_s * (1.0 - _JITTER_SHARE * self._rng.random()))
            self._beats += 1
            self._queue(pb.EnrollRequest(heartbeat=pb.Heartbeat(sequence=self._beats)))

    async def flush(self) -> None:
        """Waits, at most a second, until what was said so far is written: the goodbye must leave before the process does."""
        with anyio.move_on_after(_GOODBYE_S):
            while self._waiting:
                self._written = anyio.Event()
                await self._written.wait()

    def _register(self) -> pb.Register:
        member = self._membership
        legs, version = self._live()
        return pb.Register(
            runtime_id=member.runtime_id,
            incarnation=member.incarnation,
            machine_id=member.machine_id,
            websocket_address=member.websocket_address,
            grpc_address=member.grpc_address,
            region=member.region,
            abilities=member.abilities,
            agents=member.agents,
            version=member.version,
            sdk_version=member.sdk_version,
            cost_class=member.cost_class,
            hard_limit=member.hard_limit,
            live=[pb.LegIdentity(session_id=session_id, epoch=epoch) for session_id, epoch in legs],
            ledger_version=version,
            state=STATE_NUMBERS[self._state()],
        )


_CHANNEL_OPTIONS: Final = (
    *probing(10_000, 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)


def _refusal(code: grpc.StatusCode, details: str | None) -> aio.AioRpcError:
    return aio.AioRpcError(code, aio.Metadata(), aio.Metadata(), details or "the balancer did not register us")


def _each(errors: BaseExceptionGroup[aio.AioRpcError]) -> Iterator[aio.AioRpcError]:
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _each(error)
        else:
            yield error
