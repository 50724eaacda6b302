"""Callers that end in every way, each as cheap as can be: raw frames on a socket, one gRPC stream."""

from __future__ import annotations

import contextlib
import math
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Final, Self, TypeAlias

import anyio
from anyio.abc import SocketStream
from grpc import aio

from perf.faults.plan import Connection, Ending, Wire
from perf.faults.silent_hop import silent_hop
from protos.switchboard.v1 import voice_pb2 as pb
from protos.switchboard.v1 import voice_pb2_grpc

__all__ = ["Callers", "Outcome"]

_Stream: TypeAlias = aio.StreamStreamCall[pb.ConverseRequest, pb.ConverseResponse]
Outcome = str
"""started: the server has acknowledged the session; unanswered: it went before; refused: it gave no place; other: not tried;
overdue: the server neither answered nor ended it in time."""
_PATIENCE_S: Final = 30.0
_OWN_CONNECTION: Final = (("grpc.max_reconnect_backoff_ms", 500), ("grpc.use_local_subchannel_pool", 1))
_ON_ITS_WAY_S: Final = 0.05
"""A gRPC call that is cancelled at once never leaves the process."""
_MASK: Final = b"\x00\x00\x00\x00"
_UPDATE: Final = b'{"type":"session.update","session":{"type":"realtime"}}'
_PCM16K: Final = pb.AudioFormat(encoding=pb.AUDIO_ENCODING_PCM16, sample_rate_hz=16_000)


def _frame(opcode: int, payload: bytes) -> bytes:
    """A masked client frame (mask 0, which leaves the bytes readable) of at most 125 bytes."""
    return bytes((0x80 | opcode, 0x80 | len(payload))) + _MASK + payload


class Callers:
    """Makes the planned connections. `hold` is awaited by those that stay. Addresses, host:port, are by worker.

    One gRPC channel a worker serves all calls but those that lose their network. Use as a context manager.
    """

    def __init__(self, http: list[str], grpc: list[str], hold: Callable[[], Awaitable[None]]) -> None:
        self._http = http
        self._grpc_addresses = grpc
        self._hold = hold
        self._stack = contextlib.AsyncExitStack()
        self._stubs: list[voice_pb2_grpc.VoiceAgentAsyncStub] = []

    async def __aenter__(self) -> Self:
        for address in self._grpc_addresses:
            channel = await self._stack.enter_async_context(aio.insecure_channel(address, options=_OWN_CONNECTION))
            self._stubs.append(voice_pb2_grpc.VoiceAgentStub(channel))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stubs.clear()
        await self._stack.aclose()

    async def make(self, connection: Connection) -> Outcome:
        """One connection from its beginning to its end. A worker that dies under it is no error."""
        try:
            with anyio.fail_after(math.inf if connection.ending is Ending.STAY else _PATIENCE_S):
                if connection.wire is Wire.WEBSOCKET:
                    return await self._websocket(connection)
                if connection.ending is Ending.HALF_OPEN:
                    return await self._grpc_half_open(connection)
                return await self._grpc(connection)
        except TimeoutError:
            return "overdue"
        except (OSError, anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError, aio.AioRpcError):
            return "unanswered"

    async def _websocket(self, connection: Connection) -> Outcome:
        host, _, port = self._http[connection.worker].rpartition(":")
        async with await anyio.connect_tcp(host, int(port)) as stream:
            if connection.ending is Ending.GARBAGE:
                await stream.send(bytes((connection.number * 7 + step) % 256 for step in range(64)))
                return "other"
            request = (
                f"GET /v1/realtime?session_id=f-{connection.number} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\n"
                "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            await stream.send(request.encode())
            heard = await _until(stream, bytearray(), b"\r\n\r\n")
            if b" 101 " not in heard.split(b"\r\n", 1)[0]:
                return "refused"
            if connection.ending is Ending.SILENT:
                _reset(stream)
                return "other"
            await stream.send(_frame(1, _UPDATE))
            await _until(stream, heard, b'"session.updated"')
            await self._end_websocket(stream, connection.ending)
            return "started"

    async def _end_websocket(self, stream: SocketStream, ending: Ending) -> None:
        match ending:
            case Ending.CLOSE:
                await stream.send(_frame(8, struct.pack("!H", 1000)))
                await _drain(stream)
            case Ending.RESET:
                _reset(stream)
            case Ending.HALF_CLOSE:
                await stream.send_eof()
                await _drain(stream)
            case Ending.BREACH:
                await stream.send(b"\xff\xff\xff\xff")  # reserved bits and an unknown opcode
                await _drain(stream)
            case Ending.HALF_OPEN:
                await _drain(stream)  # reads on, answers no ping
            case _:
                await self._hold()

    async def _grpc(self, connection: Connection) -> Outcome:
        stream = self._stubs[connection.worker].Converse()
        if connection.ending is Ending.SILENT:
            await anyio.sleep(_ON_ITS_WAY_S)
            stream.cancel()
            return "other"
        if connection.ending is Ending.GARBAGE:
            await stream.write(pb.ConverseRequest(text="before the configuration"))
            await _read_out(stream)
            return "other"
        config = _config(connection)
        await stream.write(config)
        if not await _is_answered(stream):
            return "refused"
        match connection.ending:
            case Ending.CLOSE:
                await stream.write(pb.ConverseRequest(end=pb.EndSession()))
                await _read_out(stream)
            case Ending.HALF_CLOSE:
                await stream.done_writing()
                await _read_out(stream)
            case Ending.BREACH:
                await stream.write(config)
                await _read_out(stream)
            case Ending.STAY:
                await self._hold()
                stream.cancel()
            case _:
                stream.cancel()
        return "started"

    async def _grpc_half_open(self, connection: Connection) -> Outcome:
        """Of a connection of its own, since what befalls it befalls all calls on it."""
        address = self._grpc_addresses[connection.worker]
        async with silent_hop(address) as hop, aio.insecure_channel(hop.address, options=_OWN_CONNECTION) as channel:
            stream = voice_pb2_grpc.VoiceAgentStub(channel).Converse()
            await stream.write(_config(connection))
            if not await _is_answered(stream):
                return "refused"
            hop.fall_silent()
            await hop.until_far_hung_up()
            return "started"


def _config(connection: Connection) -> pb.ConverseRequest:
    return pb.ConverseRequest(config=pb.SessionConfig(session_id=f"f-{connection.number}", input_format=_PCM16K))


async def _is_answered(stream: _Stream) -> bool:
    first: object = await stream.read()
    return isinstance(first, pb.ConverseResponse)


async def _until(stream: SocketStream, heard: bytearray, mark: bytes) -> bytearray:
    with anyio.fail_after(_PATIENCE_S):
        while mark not in heard:
            heard += await stream.receive()
    return heard


async def _drain(stream: SocketStream) -> None:
    with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            await stream.receive()


async def _read_out(stream: _Stream) -> None:
    with contextlib.suppress(aio.AioRpcError):
        while await stream.read() is not aio.EOF:
            pass


def _reset(stream: SocketStream) -> None:
    """The close that follows tears the connection by RST."""
    raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
