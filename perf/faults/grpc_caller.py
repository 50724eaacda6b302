"""A call over gRPC that ends as it is told to: one stream of `Converse`."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, TypeAlias

import anyio
import grpc
from grpc import aio

from perf.faults.agent import FAULT, FLOOD
from perf.faults.journal import Visit
from perf.faults.plan import Connection, Ending, Outcome
from perf.faults.silent_hop import silent_hop
from perf.faults.websocket_caller import CHATTER_S, SLOW_S, Place
from protos.switchboard.v1 import voice_pb2 as pb
from protos.switchboard.v1 import voice_pb2_grpc
from runtime.wire.headers import TICKET_HEADER

__all__ = ["OWN_CONNECTION", "GrpcCaller"]

_Stream: TypeAlias = aio.StreamStreamCall[pb.ConverseRequest, pb.ConverseResponse]
OWN_CONNECTION: Final = (("grpc.max_reconnect_backoff_ms", 500), ("grpc.use_local_subchannel_pool", 1))
_SMALL_WINDOW: Final = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_536))
"""What grpc takes from the wire before anybody reads; it would grow with the speed of the line to more than a flood has."""
_ON_ITS_WAY_S: Final = 0.05
"""A gRPC call that is cancelled at once never leaves the process."""
_REFUSALS: Final = frozenset(
    {
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.INVALID_ARGUMENT,
    }
)
_PCM16K: Final = pb.AudioFormat(encoding=pb.AUDIO_ENCODING_PCM16, sample_rate_hz=16_000)


class GrpcCaller:
    """`stay_s`: how long a call that stays is held. `stubs`: by address."""

    def __init__(self, stay_s: float) -> None:
        self.stubs: dict[str, voice_pb2_grpc.VoiceAgentAsyncStub] = {}
        self._stay_s = stay_s

    async def call(self, visit: Visit, place: Place) -> Outcome:
        """Raises AioRpcError where the call ends before its time."""
        if visit.connection.ending is Ending.HALF_OPEN:
            return await self._half_open(visit, place)
        if visit.connection.ending is Ending.SLOW:
            return await self._slow(visit, place)
        stream = _open(self.stubs[place.grpc], place)
        match visit.connection.ending:
            case Ending.SILENT:
                await anyio.sleep(_ON_ITS_WAY_S)
                stream.cancel()
                return Outcome.UNSPOKEN
            case Ending.GARBAGE:
                await stream.write(pb.ConverseRequest(text="before the configuration"))
                await _read_out(stream)
                return Outcome.UNSPOKEN
        config = _config(visit.connection)
        await stream.write(config)
        if not await _is_answered(stream):
            return Outcome.REFUSED
        return await self._end(visit, stream, config)

    async def _end(self, visit: Visit, stream: _Stream, config: pb.ConverseRequest) -> Outcome:
        ending = visit.connection.ending
        if ending in (Ending.STAY, Ending.DRAIN):
            return await self._stay(visit, stream)
        visit.leave()
        match ending:
            case Ending.CLOSE:
                await stream.write(pb.ConverseRequest(end=pb.EndSession()))
                await _read_out(stream)
            case Ending.RESET:
                stream.cancel()
            case Ending.HALF_CLOSE:
                await stream.done_writing()
                await _read_out(stream)
            case Ending.BREACH:
                await stream.write(config)
                await _read_out(stream)
            case Ending.IDLE:
                await _read_out(stream)
            case Ending.LONG:
                await _chat(stream)
            case Ending.FAULT:
                await stream.write(pb.ConverseRequest(text=FAULT))
                await _read_out(stream)
            case _:
                raise AssertionError(f"{ending} is no way to end here")
        return Outcome.STARTED

    async def _stay(self, visit: Visit, stream: _Stream) -> Outcome:
        visit.hold()
        is_for_a_while = visit.connection.ending is Ending.STAY
        with anyio.move_on_after(self._stay_s if is_for_a_while else None) as stay:
            await _chat(stream)
        if stay.cancelled_caught:
            visit.leave()
            stream.cancel()
            return Outcome.STARTED
        return Outcome.CUT if is_for_a_while else Outcome.STARTED

    async def _half_open(self, visit: Visit, place: Place) -> Outcome:
        """On a connection of its own, since what befalls it befalls all calls on it."""
        async with silent_hop(place.grpc) as hop, aio.insecure_channel(hop.address, options=OWN_CONNECTION) as channel:
            if await self._begin(visit, channel, place) is None:
                return Outcome.REFUSED
            hop.fall_silent()
            await hop.until_far_hung_up()
            return Outcome.STARTED

    async def _slow(self, visit: Visit, place: Place) -> Outcome:
        """On a connection of its own, whose window it fills."""
        async with aio.insecure_channel(place.grpc, options=(*OWN_CONNECTION, *_SMALL_WINDOW)) as channel:
            stream = await self._begin(visit, channel, place)
            if stream is None:
                return Outcome.REFUSED
            await stream.write(pb.ConverseRequest(text=FLOOD))
            await anyio.sleep(SLOW_S)
            stream.cancel()
            return Outcome.STARTED

    async def _begin(self, visit: Visit, channel: aio.Channel, place: Place) -> _Stream | None:
        """None: the server gave no place."""
        stream = _open(voice_pb2_grpc.VoiceAgentStub(channel), place)
        await stream.write(_config(visit.connection))
        if not await _is_answered(stream):
            return None
        visit.leave()
        return stream


def _open(stub: voice_pb2_grpc.VoiceAgentAsyncStub, place: Place) -> _Stream:
    metadata = ((TICKET_HEADER, place.ticket),) if place.ticket else None
    return stub.Converse(wait_for_ready=True, metadata=metadata)


def _config(connection: Connection) -> pb.ConverseRequest:
    return pb.ConverseRequest(config=pb.SessionConfig(session_id=connection.session_id, input_format=_PCM16K))


async def _is_answered(stream: _Stream) -> bool:
    """False: the server gave no place. Raises AioRpcError where the connection was lost."""
    try:
        first: object = await stream.read()
    except aio.AioRpcError as error:
        if error.code() in _REFUSALS:
            return False
        raise
    return isinstance(first, pb.ConverseResponse)


async def _chat(stream: _Stream) -> None:
    """Says something now and then until the call is over."""
    async with anyio.create_task_group() as group:
        group.start_soon(_chatter, stream)
        await _read_out(stream)
        group.cancel_scope.cancel()


async def _chatter(stream: _Stream) -> None:
    with contextlib.suppress(aio.AioRpcError, asyncio.InvalidStateError):  # the call is over, which the reader sees as well
        while True:
            await anyio.sleep(CHATTER_S)
            await stream.write(pb.ConverseRequest(interrupt=pb.Interrupt()))


async def _read_out(stream: _Stream) -> None:
    with contextlib.suppress(aio.AioRpcError):
        while await stream.read() is not aio.EOF:
            pass
