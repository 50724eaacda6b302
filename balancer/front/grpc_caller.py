"""A gRPC caller's stream as a transport that carries WebSocket frames, so that a relay takes it for any other caller.

    caller's message        one whole client frame to the protocol
    half-close              after `end_of_input`: `end` with `after_reply`; after `end`: nothing; else the end of the connection,
                            since a reader cannot tell it from a lost caller (docs/decisions/0011)
    cancel, deadline, loss  the end of the connection
    server frame            one message of the stream
    ping                    answered here: whether the peer lives is HTTP/2's affair (its own pings)
    close                   the status of the stream, once everything before it was written; answered here

What waits for a caller who does not read is bounded by the relay, as for every transport: above the high mark the protocol is
told, pauses the runtime, and aborts in the end. Of that caller one message stays with grpc until it reads or hangs up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import anyio
from google.protobuf.message import DecodeError

from balancer.front.message_frames import client_frame, server_frames
from protos.switchboard.v1 import voice_pb2 as pb
from runtime.primitives.reasons import EndReason
from runtime.wire.close_codes import GRPC_STATUS_BY_END, grpc_status_of_close
from runtime.wire.websocket_frames import CLOSE, PING, PONG, build_frame

__all__ = ["GrpcCaller", "MessageStream", "StreamClosed"]

_TEXT: Final = 0x1
_NO_KEY: Final = bytes(4)
_LONGEST_WORD_BYTES: Final = 64
"""What `end` and `end_of_input` take at most, with their numbers; longer messages are something else."""
_CERTAIN_S: Final = 0.1
"""A reader sees the end of a lost connection a moment before the call is cancelled for it: so long a hang-up waits for that."""
_HANG_UP: Final = client_frame(pb.ConverseRequest(end=pb.EndSession(after_reply=True)).SerializeToString())


class StreamClosed(Exception):
    """Nobody is there any more."""


class MessageStream(Protocol):
    """The caller's stream. Cancelled from outside where the caller cancels, is late or lost."""

    async def read(self) -> bytes | None:
        """The next message; None: the caller half-closed, or is gone."""
        ...

    async def write(self, message: bytes) -> None:
        """Returns when the caller's flow control has let it go. Raises StreamClosed."""
        ...


class GrpcCaller(asyncio.Transport):
    """`run` carries it, from when a protocol is set to the end.

    Attributes:
        status: name and text of the gRPC status that the stream ends with, once `run` has returned.
    """

    def __init__(self, stream: MessageStream) -> None:
        super().__init__()
        self.status = ("UNAVAILABLE", "the call was given up")
        self._stream = stream
        self._protocol: asyncio.Protocol
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[bytes | tuple[int, bytes]] = deque()
        """Messages; and the close frame, as its opcode and payload."""
        self._waiting_bytes = 0
        self._marks = (65_536, 16_384)
        self._is_paused = False
        self._is_closing = False
        self._is_lost = False
        self._has_said_end = False
        self._has_ended_input = False
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._reading = anyio.CancelScope()
        self._writer: asyncio.Future[None] | None = None
        """Set while the writer waits for something to write."""

    async def run(self, first: Callable[[], Awaitable[object]] | None = None) -> None:
        """Returns when the stream may be given its status. `first`: what is to be done before any message. Cancelled, the caller
        is gone."""
        try:
            if first is not None:
                await first()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read)
                await self._write()
                self._reading.cancel()
        finally:
            self._is_closing = True
            self._tell_lost()

    # As a transport

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        assert low is not None
        self._marks = (high, low)

    def get_write_buffer_size(self) -> int:
        return self._waiting_bytes

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    def can_write_eof(self) -> bool:
        return False

    def write(self, data: Any) -> None:  # Any: the base class takes every kind of buffer, the relay has bytes
        """Whole frames."""
        if self._is_closing:
            return
        for opcode, payload in server_frames(data):
            if opcode == _TEXT:
                continue  # what the relay itself says to who is back: the metadata of the stream has said it
            if not opcode & 0x08:
                self._waiting.append(payload)
                self._waiting_bytes += len(payload)
            elif opcode == PING:
                self._loop.call_soon(self._hear, build_frame(PONG, payload, _NO_KEY))
            elif opcode == CLOSE:
                self._waiting.append((CLOSE, payload))
        self._wake()
        if self._waiting_bytes > self._marks[0] and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_writing()

    def close(self) -> None:
        """What waits is written first."""
        self._is_closing = True
        self._wake()

    def abort(self) -> None:
        """The protocol is done with it at once; the stream as soon as the message that it is writing is taken, or refused."""
        if self._is_paused:
            self._end(EndReason.SLOW_CALLER)
        self._is_closing = True
        self._waiting.clear()
        self._waiting_bytes = 0
        self._reading.cancel()
        self._loop.call_soon(self._tell_lost)
        self._wake()

    # The two directions

    async def _read(self) -> None:
        with self._reading:
            while True:
                if not self._may_read.is_set():
                    await self._may_read.wait()
                message = await self._stream.read()
                if message is None:
                    break
                if len(message) <= _LONGEST_WORD_BYTES:
                    self._look_at(message)
                self._hear(client_frame(message))
            if self._has_ended_input and not self._has_said_end:
                await anyio.sleep(_CERTAIN_S)
            self._half_closed()

    def _look_at(self, message: bytes) -> None:
        """Whether it is a word that a half-close may follow."""
        try:
            said = pb.ConverseRequest.FromString(message).WhichOneof("payload")
        except DecodeError:
            return  # the runtime says so
        self._has_said_end = self._has_said_end or said == "end"
        self._has_ended_input = self._has_ended_input or said == "end_of_input"

    def _half_closed(self) -> None:
        if self._has_said_end:
            return
        if self._has_ended_input:
            self._hear(_HANG_UP)
        else:
            self._end(EndReason.CONNECTION_LOST)
            self._protocol.eof_received()

    async def _write(self) -> None:
        """Until the transport is closed, and what waited is written."""
        waiting = self._waiting
        while True:
            while waiting:
                message = waiting.popleft()
                if not isinstance(message, bytes):
                    self._close_reached(message[1])
                    continue
                try:
                    await self._stream.write(message)
                except StreamClosed:
                    return
                self._waiting_bytes = max(0, self._waiting_bytes - len(message))
                if self._is_paused and self._waiting_bytes <= self._marks[1] and not self._is_lost:
                    self._is_paused = False
                    self._protocol.resume_writing()
            if self._is_closing:
                return
            self._writer = self._loop.create_future()
            await self._writer

    def _close_reached(self, payload: bytes) -> None:
        """All before it is written. The caller has nothing to add: its answer is ours to give."""
        code, text = int.from_bytes(payload[:2], "big"), payload[2:].decode(errors="replace")
        self.status = grpc_status_of_close(code, text), text
        self._hear(build_frame(CLOSE, payload, _NO_KEY))

    def _end(self, reason: EndReason) -> None:
        self.status = GRPC_STATUS_BY_END[reason], reason.value

    def _hear(self, frame: bytes) -> None:
        self._protocol.data_received(frame)

    def _tell_lost(self) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._protocol.connection_lost(None)

    def _wake(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None and not writer.done():
            writer.set_result(None)
