"""A relay's stream to its control: opened again whenever it is lost, and then all that the relay holds is told anew.

Nothing of a call depends on it. While it is down calls go on; what happens meanwhile is in the next listing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol

import anyio
import structlog
from grpc import aio

from balancer.fleet.channels import RuntimeChannels
from protos.switchboard.v1 import relay_control_pb2 as pb
from protos.switchboard.v1 import relay_control_pb2_grpc
from runtime.primitives.backoff import Backoff
from runtime.primitives.clock import NS_PER_S, Clock
from runtime.primitives.rng import Rng

__all__ = ["ControlLink", "RelayIdentity", "RelaySide"]

_REPORT_S: Final = 1.0
_SILENCE_S: Final = 4.0
"""The control says something once a second."""
_LISTED_AT_ONCE: Final = 2_000
_MOST_EVENTS: Final = 10_000
"""That wait to be written; beyond it the stream is broken off, and everything is listed anew."""
_LONGEST_WAIT_S: Final = 1.0

_Stream = aio.StreamStreamCall[pb.FromRelay, pb.FromControl]


@dataclass(frozen=True, slots=True)
class RelayIdentity:
    relay_id: str
    life: int
    """Another one for every start."""
    operator_address: str


class RelaySide(Protocol):
    """What the relay does with the control's news."""

    def suspect(self, runtime_id: str, incarnation: int) -> None: ...

    def tend_drains(self) -> None:
        """Who takes its leave may have changed."""
        ...

    def move(self, session_id: str, to: str) -> str:
        """Why it cannot be, or nothing: it has begun."""
        ...

    def statistics(self) -> Mapping[str, float]: ...

    def move_counts(self) -> Mapping[tuple[str, str], float]: ...


class ControlLink:
    """`side` must be set before `run`, which ends only by cancellation. The rest may be called at any time, and never blocks."""

    side: RelaySide

    def __init__(
        self,
        address: str,
        channels: RuntimeChannels,
        identity: RelayIdentity,
        clock: Clock,
        rng: Rng,
        log: structlog.typing.FilteringBoundLogger,
        silence_s: float = _SILENCE_S,
    ) -> None:
        """`silence_s`: a control that says nothing for so long is taken for lost."""
        self.standing: pb.Standing | None = None
        """What the control said last on the stream that is open; None: there is none."""
        self.attached = 0
        """How often the control took us in."""
        self._address = address
        self._channels = channels
        self._identity = identity
        self._clock = clock
        self._rng = rng
        self._log = log.bind(control=address)
        self._leaving: frozenset[tuple[str, int]] = frozenset()
        self._held: dict[str, int] = {}
        self._events: list[pb.RelayEvent] = []
        self._answers: list[pb.MoveAnswer] = []
        self._arrived = anyio.Event()
        self._is_listing = False
        """The listing of this stream has begun: what happens from then on is told behind it."""
        self._overflowed = anyio.Event()
        self._heard_ns = 0
        self._silence_ns = int(silence_s * NS_PER_S)

    @property
    def life(self) -> int:
        return self._identity.life

    @property
    def channel(self) -> aio.Channel:
        return self._channels.to(self._address)

    @property
    def is_ready(self) -> bool:
        """Whether a call without needs would be placed now, as far as the control said."""
        return self.standing is not None and self.standing.is_ready

    def is_leaving(self, runtime_id: str, incarnation: int) -> bool:
        """The last that was said of it, also while no control is there."""
        return (runtime_id, incarnation) in self._leaving

    # What the relay tells

    def hold(self, session_id: str, epoch: int) -> None:
        self._held[session_id] = epoch
        self._tell(pb.RelayEvent(held=pb.HeldLeg(session_id=session_id, epoch=epoch)))

    def epoch_used(self, session_id: str, epoch: int) -> None:
        """By a session that is held: a control that is restarted must not use it again."""
        if session_id in self._held:
            self._held[session_id] = max(epoch, self._held[session_id])

    def let_go(self, session_id: str) -> None:
        if self._held.pop(session_id, None) is not None:
            self._tell(pb.RelayEvent(let_go=session_id))

    def released(self, number: int) -> None:
        """The place of that request, if it ever got one, is not used. Where the control is gone its ticket expires."""
        self._tell(pb.RelayEvent(released=number))

    def failed(self, number: int, detail: str) -> None:
        self._tell(pb.RelayEvent(failed=pb.PlaceFailed(number=number, detail=detail)))

    def _tell(self, event: pb.RelayEvent) -> None:
        if not self._is_listing:
            return
        if len(self._events) >= _MOST_EVENTS:
            self._overflowed.set()
            return
        self._events.append(event)
        self._arrived.set()

    # The stream

    async def run(self) -> None:
        backoff = Backoff(self._rng, longest_s=_LONGEST_WAIT_S)
        while True:
            try:
                why = await self._attend(backoff)
            finally:
                was_attached, self.standing, self._is_listing = self.standing is not None, None, False
            if was_attached:
                self._log.warning("control lost", cause=why, held=len(self._held))
            await anyio.sleep(backoff.next_wait_s())

    async def _attend(self, backoff: Backoff) -> str:
        """One stream, until it ends; why it did."""
        stream = relay_control_pb2_grpc.RelayControlStub(self.channel).Attend()
        self._heard_ns = self._clock.now_ns()
        self._overflowed = anyio.Event()
        endings: list[str] = []
        try:
            async with anyio.create_task_group() as group:

                async def read() -> None:
                    endings.append(await self._read(stream, backoff))
                    group.cancel_scope.cancel()

                async def watch() -> None:
                    endings.append(await self._until_useless())
                    group.cancel_scope.cancel()

                group.start_soon(read)
                group.start_soon(watch)
                await self._write(stream)
        except* aio.AioRpcError as errors:
            endings += [f"{each.code().name}: {each.details()}" for each in _each(errors)]
        except* asyncio.InvalidStateError:  # grpc's word for writing to a stream that has just ended
            endings.append("the stream was closed")
        finally:
            stream.cancel()
        return endings[0]

    async def _write(self, stream: _Stream) -> NoReturn:
        mine = self._identity
        attend = pb.Attend(relay_id=mine.relay_id, relay_life=mine.life, operator_address=mine.operator_address)
        await stream.write(pb.FromRelay(attend=attend))
        self._events.clear()
        self._answers.clear()
        self._is_listing = True
        listing = list(self._held.items())
        for start in range(0, len(listing), _LISTED_AT_ONCE):
            await stream.write(pb.FromRelay(events=_holds(listing[start : start + _LISTED_AT_ONCE])))
        await stream.write(pb.FromRelay(listed=pb.Listed()))
        next_report_ns = 0
        while True:
            self._arrived = anyio.Event()
            events, self._events = self._events, []
            answers, self._answers = self._answers, []
            if events:
                await stream.write(pb.FromRelay(events=pb.RelayEvents(events=events)))
            for answer in answers:
                await stream.write(pb.FromRelay(moved=answer))
            if self._clock.now_ns() >= next_report_ns:
                next_report_ns = self._clock.now_ns() + int(_REPORT_S * NS_PER_S)
                await stream.write(pb.FromRelay(report=self._report()))
            with anyio.move_on_after((next_report_ns - self._clock.now_ns()) / NS_PER_S):
                await self._arrived.wait()

    async def _read(self, stream: _Stream, backoff: Backoff) -> str:
        while True:
            message = await stream.read()
            if not isinstance(message, pb.FromControl):
                return f"{(await stream.code()).name}: {await stream.details()}"
            self._heard_ns = self._clock.now_ns()
            match message.WhichOneof("payload"):
                case "standing":
                    self._stand(message.standing, backoff)
                case "suspected":
                    self.side.suspect(message.suspected.runtime_id, message.suspected.incarnation)
                case "move":
                    wish = message.move
                    self._answers.append(pb.MoveAnswer(number=wish.number, problem=self.side.move(wish.session_id, wish.to)))
                    self._arrived.set()
                case _:  # a newer control's news: heard, not understood
                    pass

    def _stand(self, standing: pb.Standing, backoff: Backoff) -> None:
        is_new = self.standing is None
        self.standing = standing
        if is_new:
            self.attached += 1
            backoff.succeeded()
            self._log.info("attached", balancer_id=standing.balancer_id, held=len(self._held))
        leaving = frozenset((each.runtime_id, each.incarnation) for each in standing.leaving)
        if leaving != self._leaving:
            self._leaving = leaving
            self.side.tend_drains()

    async def _until_useless(self) -> str:
        while (left_ns := self._heard_ns + self._silence_ns - self._clock.now_ns()) > 0:
            with anyio.move_on_after(left_ns / NS_PER_S):
                await self._overflowed.wait()
                return "it does not take what it is told; all is told anew"
        return "silent for too long"

    def _report(self) -> pb.RelayReport:
        return pb.RelayReport(
            numbers=self.side.statistics(),
            moves=[
                pb.MoveCount(kind=kind, result=result, count=int(count))
                for (kind, result), count in self.side.move_counts().items()
            ],
        )


def _holds(legs: list[tuple[str, int]]) -> pb.RelayEvents:
    return pb.RelayEvents(
        events=[pb.RelayEvent(held=pb.HeldLeg(session_id=session_id, epoch=epoch)) for session_id, epoch in legs]
    )


def _each(errors: BaseExceptionGroup[aio.AioRpcError]) -> Iterator[aio.AioRpcError]:
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _each(error)
        else:
            yield error
