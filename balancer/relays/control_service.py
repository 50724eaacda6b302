"""The control's side of its relays: places for their callers, and one stream with each."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final

import anyio
import grpc
import structlog

from balancer.fleet.fleet import Fleet
from balancer.placement.errors import PlacementRefused
from balancer.placement.placement import Placement
from balancer.placement.placer import Placer
from balancer.relays.attached_relays import AttachedRelay, AttachedRelays
from balancer.relays.messages import BadPlaceRequest, door_from, held, refusal, request_from
from protos.switchboard.v1 import relay_control_pb2 as pb
from protos.switchboard.v1 import relay_control_pb2_grpc
from runtime.primitives.clock import NS_PER_MS, NS_PER_S, Clock
from runtime.primitives.ids import is_session_id

__all__ = ["RelayControlService"]

_Context = grpc.aio.ServicerContext[pb.FromRelay, pb.FromControl]
_PlaceContext = grpc.aio.ServicerContext[pb.PlaceRequest, pb.PlaceResponse]
_FIRST_MESSAGE_S: Final = 5.0
_SILENCE_S: Final = 10.0
"""A relay says something once a second; one that is this late has lost its stream."""
_LOOK_S: Final = 1.0
"""How often every relay is told where things stand, and looked at."""
_MOVE_ANSWER_S: Final = 3.0
_RESERVING_S: Final = 5.0
"""What a placement may take beside its wait: two rounds of candidates, each with the time to reserve."""
_REMEMBERED_NS: Final = 12 * NS_PER_S
"""Longer than any ticket lives: a place that is still not used then is nobody's."""


@dataclass(slots=True)
class _Stream:
    relay: AttachedRelay
    scope: anyio.CancelScope
    heard_ns: int
    news: list[pb.FromControl] = field(default_factory=list)
    wake: anyio.Event = field(default_factory=anyio.Event)
    listed: anyio.Event = field(default_factory=anyio.Event)
    is_taken_over: bool = False

    def tell(self, message: pb.FromControl) -> None:
        self.news.append(message)
        self.wake.set()


class RelayControlService(relay_control_pb2_grpc.RelayControlServicer):
    """`run` must run beside it."""

    def __init__(
        self,
        placer: Placer,
        fleet: Fleet,
        is_ready: Callable[[], bool],
        clock: Clock,
        log: structlog.typing.FilteringBoundLogger,
        *,
        silence_s: float = _SILENCE_S,
        move_answer_s: float = _MOVE_ANSWER_S,
    ) -> None:
        """`silence_s`: a relay that says nothing for so long has lost its stream; `move_answer_s`: what it may take to answer a
        wish for a move."""
        self.relays = AttachedRelays(placer.hold, placer.let_go)
        self._placer = placer
        self._fleet = fleet
        self._is_ready = is_ready
        self._clock = clock
        self._log = log
        self._silence_ns = int(silence_s * NS_PER_S)
        self._move_answer_s = move_answer_s
        self._streams: dict[int, _Stream] = {}
        self._placing: dict[tuple[int, int], anyio.CancelScope] = {}
        self._places: OrderedDict[tuple[int, int], tuple[Placement, int]] = OrderedDict()
        """Places by relay life and number, and until when they are remembered; oldest first."""
        self._wishes: dict[int, tuple[anyio.Event, list[str]]] = {}
        self._next_wish = 1
        self._standing = self._stand()

    async def run(self) -> None:
        """Ends only by cancellation."""
        while True:
            await anyio.sleep(_LOOK_S)
            now_ns = self._clock.now_ns()
            for relay in self.relays.tend(now_ns):
                self._log.warning("relay forgotten", relay_id=relay.relay_id)
            for stream in list(self._streams.values()):
                if now_ns - stream.heard_ns > self._silence_ns:
                    stream.scope.cancel()
            self.standing_changed()

    # What the fleet and operators want

    def standing_changed(self) -> None:
        """Who takes its leave, or whether there is room, may have changed and is to be told now. O(runtimes)."""
        if self._streams:
            self._standing = self._stand()
        for stream in self._streams.values():
            stream.wake.set()

    def suspect(self, runtime_id: str, incarnation: int) -> None:
        life = pb.RuntimeLife(runtime_id=runtime_id, incarnation=incarnation)
        for stream in self._streams.values():
            stream.tell(pb.FromControl(suspected=life))

    async def move(self, session_id: str, to: str) -> str:
        """Asks the relay that holds the call. Why it cannot be, or nothing: it has begun."""
        relay = self.relays.holder(session_id)
        stream = None if relay is None else self._streams.get(relay.life)
        if stream is None:
            return "no such call is relayed here"
        number, self._next_wish = self._next_wish, self._next_wish + 1
        answered, problems = self._wishes[number] = (anyio.Event(), [])
        stream.tell(pb.FromControl(move=pb.MoveWish(number=number, session_id=session_id, to=to)))
        try:
            with anyio.move_on_after(self._move_answer_s):
                await answered.wait()
        finally:
            del self._wishes[number]
        return problems[0] if problems else "its relay did not answer in time"

    # Places

    async def Place(self, request: pb.PlaceRequest, context: _PlaceContext) -> pb.PlaceResponse:
        key = (request.relay_life, request.number)
        scope = self._placing[key] = anyio.CancelScope()
        try:
            with scope:
                placement = await self._place(request)
                self._remember(key, placement)
                return pb.PlaceResponse(held=held(placement))
        except PlacementRefused as refused:
            return pb.PlaceResponse(refused=refusal(refused))
        except BadPlaceRequest as bad:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(bad))
        finally:
            del self._placing[key]
        await context.abort(grpc.StatusCode.CANCELLED, "the relay gave the place back before it was held")
        raise AssertionError  # abort raises; the stubs do not say so

    async def _place(self, message: pb.PlaceRequest) -> Placement:
        request, door = request_from(message), door_from(message)
        match message.way:
            case pb.PLACE_WAY_NEW:
                return await self._placer.place(request, door)
            case pb.PLACE_WAY_AGAIN:
                failed, _ = self._places.pop((message.relay_life, message.failed), (None, 0))
                if failed is None:  # admitted by the life before this one: its place expires with its ticket
                    return await self._placer.place(request, door)
                return await self._placer.place_again(failed, door)
            case pb.PLACE_WAY_NEXT_LEG:
                lost = frozenset((each.runtime_id, each.incarnation) for each in message.lost)
                return await self._placer.adopt(request, lost)
            case _:
                raise BadPlaceRequest("way", message.way, "a PlaceWay, but unspecified")

    def _remember(self, key: tuple[int, int], placement: Placement) -> None:
        now_ns = self._clock.now_ns()
        self._places[key] = (placement, now_ns + _REMEMBERED_NS)
        while True:
            oldest, (_, until_ns) = next(iter(self._places.items()))
            if until_ns > now_ns:
                return
            del self._places[oldest]

    def _released(self, key: tuple[int, int]) -> None:
        scope = self._placing.get(key)
        if scope is not None:
            scope.cancel()
        placement, _ = self._places.pop(key, (None, 0))
        if placement is not None:
            self._placer.release(placement)

    # Streams

    async def Attend(  # type: ignore[override]  # the stubs know only the generator form
        self, _requests: AsyncIterator[pb.FromRelay], context: _Context
    ) -> None:
        attend = await self._first(context)
        now_ns = self._clock.now_ns()
        before = self._streams.get(attend.relay_life)
        if before is not None:
            before.is_taken_over = True
            before.scope.cancel()
        relay = self.relays.attend(attend.relay_id, attend.relay_life, attend.operator_address, now_ns)
        stream = self._streams[relay.life] = _Stream(relay, anyio.CancelScope(), now_ns)
        self._standing = self._stand()
        self._log.info("relay attached", relay_id=relay.relay_id)
        try:
            with stream.scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._tell, stream, context)
                    await self._read(stream, context)
                    tasks.cancel_scope.cancel()
        finally:
            # Also on cancellation of the handler (lost connection, server stop): nothing here awaits.
            if self._streams.get(relay.life) is stream:
                del self._streams[relay.life]
                self.relays.lost(relay, self._clock.now_ns())
                self._log.warning("relay lost", relay_id=relay.relay_id, held=len(relay.held))
        if stream.scope.cancelled_caught:
            why = "another stream of this relay took over" if stream.is_taken_over else "the relay was silent for too long"
            await context.abort(grpc.StatusCode.ABORTED, why)

    async def _first(self, context: _Context) -> pb.Attend:
        first = None
        with anyio.move_on_after(_FIRST_MESSAGE_S):
            first = await context.read()
        if not isinstance(first, pb.FromRelay) or first.WhichOneof("payload") != "attend":
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first message must be `attend`")
            raise AssertionError  # abort raises; the stubs do not say so
        if not is_session_id(first.attend.relay_id) or len(first.attend.relay_id) > 64:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "attend.relay_id: 1-64 characters of [A-Za-z0-9_.:-]")
        if not first.attend.relay_life:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "attend.relay_life is 0; allowed: 1 and up")
        return first.attend

    async def _read(self, stream: _Stream, context: _Context) -> None:
        while True:
            message = await context.read()
            if not isinstance(message, pb.FromRelay):
                return
            stream.heard_ns = self._clock.now_ns()
            match message.WhichOneof("payload"):
                case "events":
                    for event in message.events.events:
                        self._happened(stream.relay, event)
                case "listed":
                    self.relays.listed(stream.relay)
                    stream.listed.set()
                case "report":
                    stream.relay.numbers = dict(message.report.numbers)
                    stream.relay.moves = {(each.kind, each.result): each.count for each in message.report.moves}
                case "moved":
                    wish = self._wishes.get(message.moved.number)
                    if wish is not None:
                        wish[1].append(message.moved.problem)
                        wish[0].set()
                case _:  # a newer relay's message: heard, not understood
                    pass

    def _happened(self, relay: AttachedRelay, event: pb.RelayEvent) -> None:
        match event.WhichOneof("event"):
            case "held":
                self.relays.held(relay, event.held.session_id, event.held.epoch)
            case "let_go":
                self.relays.let_go(relay, event.let_go)
            case "released":
                self._released((relay.life, event.released))
            case "failed":
                placement, _ = self._places.pop((relay.life, event.failed.number), (None, 0))
                if placement is not None:
                    self._placer.fail(placement, event.failed.detail[:200])
            case _:
                pass

    async def _tell(self, stream: _Stream, context: _Context) -> None:
        await stream.listed.wait()  # a relay that is told anything asks for places: what it holds must be known
        try:
            while True:
                stream.wake = anyio.Event()
                news, stream.news = stream.news, []
                for message in news:
                    await context.write(message)
                await context.write(pb.FromControl(standing=self._standing))
                await stream.wake.wait()
        except grpc.aio.InternalError:  # it is gone; who reads ends the stream
            return

    def _stand(self) -> pb.Standing:
        life, waiting = self._fleet.life, self._placer.room.rule
        wait_s = waiting.timeout_s if waiting.places else 0.0
        return pb.Standing(
            balancer_id=life.balancer_id,
            balancer_incarnation=life.incarnation,
            is_ready=self._is_ready(),
            leaving=[pb.RuntimeLife(runtime_id=each[0], incarnation=each[1]) for each in self._leaving()],
            place_within_ms=int((wait_s + _RESERVING_S) * NS_PER_S / NS_PER_MS),
        )

    def _leaving(self) -> tuple[tuple[str, int], ...]:
        return tuple(
            (seat.member.facts.runtime_id, seat.member.facts.incarnation)
            for seat in self._fleet.seats()
            if self._fleet.is_leaving(seat.member.facts.runtime_id, seat.member.facts.incarnation)
        )
