"""A call's connection over gRPC: straight to the runtime that a balancer assigned, or through the balancer, which keeps it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import anyio
import grpc
from grpc import aio

from clients.refusals import CallFailed, CallRefused
from protos.switchboard.v1 import assignment_pb2, assignment_pb2_grpc, voice_pb2_grpc
from protos.switchboard.v1 import voice_pb2 as pb

__all__ = ["GrpcLine", "is_grpc", "open_grpc_line"]

_Stream: TypeAlias = aio.StreamStreamCall[pb.ConverseRequest, pb.ConverseResponse]
_ANSWER_S: Final = 15.0
_DIRECT_CONNECT_S: Final = 3.0
"""To a runtime that was just assigned: well within the ticket's life, and not long where a firewall swallows the attempt."""
_GOODBYE_S: Final = 2.0
_OPTIONS: Final = (
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),  # the one that counts for a peer that is silent
    ("grpc.use_local_subchannel_pool", 1),
)
_OVER: Final = (aio.AioRpcError, aio.UsageError, asyncio.InvalidStateError)
"""What grpc raises for a call that has ended, whichever way it finds out."""


def is_grpc(server: str) -> bool:
    """Whether it is the address of a gRPC port: grpc(s)://HOST:PORT."""
    return urlsplit(server).scheme in ("grpc", "grpcs")


class GrpcLine:
    """One task reads `messages`, others `send`. The first message is the configuration; sending it waits for the server's answer.

    A connection that is lost ends the call: between caller and balancer, or caller and runtime, nothing brings it back.
    """

    can_return = False
    token = ""

    def __init__(self, channel: aio.Channel, metadata: Sequence[tuple[str, str]], agent: str, session_id: str) -> None:
        self.session_id = session_id
        self.runtime_id = ""
        self._channel = channel
        self._agent = agent
        self._stream: _Stream = voice_pb2_grpc.VoiceAgentStub(channel).Converse(metadata=tuple(metadata))
        self._first: pb.ConverseResponse | None = None
        self._said = 0
        self._has_ended = False
        self._writing = anyio.Lock()

    async def send(self, request: pb.ConverseRequest) -> None:
        """Raises CallFailed where the call is over, and for the configuration CallRefused where there is no place."""
        kind = request.WhichOneof("payload")
        if kind == "config":
            request.config.agent, request.config.session_id = self._agent, self.session_id
        async with self._writing:  # of two writes at once grpc fails one, and the call with it
            self._said += 1
            request.ordinal = self._said
            try:
                await self._stream.write(request)
            except _OVER as error:
                if kind != "config":  # else the refusal was quicker, and says why
                    raise CallFailed("the call is over") from error
        self._has_ended = self._has_ended or kind == "end"
        if kind == "config":
            await self._begin()

    async def messages(self) -> AsyncIterator[pb.ConverseResponse]:
        """What the server says, until it ends the call. Raises CallFailed where it ends otherwise than well."""
        if self._first is not None:
            first, self._first = self._first, None
            yield first
        try:
            while isinstance(response := await self._stream.read(), pb.ConverseResponse):
                yield response
        except aio.AioRpcError:
            pass  # its status says more
        self._has_ended = True
        code = await self._stream.code()
        if code is not grpc.StatusCode.OK:
            raise CallFailed(f"the call broke ({code.name}: {await self._stream.details()})")

    async def close(self) -> None:
        """Says goodbye, and waits for the answer a little."""
        try:
            with anyio.move_on_after(_GOODBYE_S), contextlib.suppress(CallFailed, *_OVER):
                if not self._has_ended and self._said:
                    await self.send(pb.ConverseRequest(end=pb.EndSession()))
                while isinstance(await self._stream.read(), pb.ConverseResponse):
                    pass
        finally:
            self._stream.cancel()
            await self._channel.close()

    async def _begin(self) -> None:
        try:
            with anyio.fail_after(_ANSWER_S):
                first: object = await self._stream.read()
        except TimeoutError:
            raise CallFailed(f"the server did not answer within {_ANSWER_S:g} s") from None
        except aio.AioRpcError as error:
            raise _refused(error) from error
        if not isinstance(first, pb.ConverseResponse):
            raise CallFailed(f"the server ended the call at once ({(await self._stream.code()).name})")
        self._first = first
        metadata = {str(key): str(value) for key, value in await self._stream.initial_metadata() or ()}
        self.session_id = first.started.session_id or self.session_id
        self.runtime_id = first.started.runtime_id or metadata.get("x-switchboard-runtime", "")


async def open_grpc_line(server: str, agent: str, session_id: str, *, is_straight: bool) -> GrpcLine:
    """`is_straight`: a balancer is asked for a place, and the call goes to the runtime. Raises CallRefused or CallFailed."""
    parts = urlsplit(server)
    is_secure = parts.scheme == "grpcs"
    door = _channel(parts.netloc, is_secure=is_secure)
    try:
        place = await _assigned(door, server, agent, session_id) if is_straight else None
        if place is not None:
            straight = _channel(place.grpc_address, is_secure=is_secure)
            try:
                with anyio.move_on_after(_DIRECT_CONNECT_S):
                    await straight.channel_ready()
                    metadata = (("x-switchboard-ticket", place.ticket), ("x-switchboard-session", place.session_id))
                    await door.close()
                    return GrpcLine(straight, metadata, agent, place.session_id)
            except BaseException:
                await straight.close()
                raise
            await straight.close()  # a network of its own: the place that is held there is the relay's as well
            session_id = place.session_id
        return GrpcLine(door, (), agent, session_id)
    except BaseException:
        await door.close()
        raise


def _channel(address: str, *, is_secure: bool) -> aio.Channel:
    if is_secure:
        return aio.secure_channel(address, grpc.ssl_channel_credentials(), options=_OPTIONS)
    return aio.insecure_channel(address, options=_OPTIONS)


async def _assigned(door: aio.Channel, server: str, agent: str, session_id: str) -> assignment_pb2.Assignment | None:
    """None: it is no balancer."""
    asked = assignment_pb2.AssignRequest(agent=agent, session_id=session_id)
    try:
        return await assignment_pb2_grpc.AssignmentsStub(door).Assign(asked, timeout=_ANSWER_S)
    except aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            return None
        raise _refused(error, server) from error


def _refused(error: aio.AioRpcError, server: str = "") -> CallFailed:
    trailers = {str(key): value for key, value in error.trailing_metadata() or ()}
    code, details = error.code(), error.details() or ""
    reason = trailers.get("refusal-reason")
    if reason is None and code is not grpc.StatusCode.NOT_FOUND:
        return CallFailed(f"cannot open a call{f' at {server}' if server else ''}: {code.name}: {details}")
    whole = trailers.get("refusal-bin", b"")
    told = assignment_pb2.AssignmentRefusal.FromString(whole if isinstance(whole, bytes) else b"")
    runtimes = [{"runtime_id": each.runtime_id, "reason": each.reason, "detail": each.detail} for each in told.runtimes]
    retry_after_s = int(str(trailers.get("retry-after-ms", "0"))) / 1000
    return CallRefused(code.value[0], str(reason or "not_found"), details, retry_after_s, runtimes, f"gRPC {code.name}")
