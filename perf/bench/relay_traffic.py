"""The two ends of the relay's benchmark: callers that send 640-byte frames and a backend that answers each with one.

Both are bare protocols with prebuilt frames, so that they cost little beside the relay. Frames have a zero mask, so payloads
need no unmasking.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Final, cast

from balancer.front.upgrade import accept_of
from runtime.wire.websocket_frames import build_frame

__all__ = ["EchoBackend", "PingPongCaller"]

PAYLOAD_BYTES: Final = 640
CLIENT_FRAME: Final = build_frame(2, b"a" * PAYLOAD_BYTES, bytes(4))
SERVER_FRAME: Final = build_frame(2, b"b" * PAYLOAD_BYTES)
_KEY: Final = b"dGhlIHNhbXBsZSBub25jZQ=="
_UPGRADE: Final = (
    b"GET /v1/realtime HTTP/1.1\r\nHost: bench\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + _KEY + b"\r\n\r\n"
)


class EchoBackend(asyncio.Protocol):
    """Answers the upgrade, then one whole server frame for each whole client frame."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._head: bytes | None = b""
        self._bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not registered as asyncio.Transport, so this cannot be an isinstance check.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            self._head += data
            if b"\r\n\r\n" not in self._head:
                return
            found = re.search(rb"sec-websocket-key: *(\S+)", self._head, re.IGNORECASE)
            assert found is not None
            self._transport.write(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Accept: " + accept_of(found[1]) + b"\r\n\r\n"
            )
            data = self._head.partition(b"\r\n\r\n")[2]
            self._head = None
        self._bytes += len(data)
        whole, self._bytes = divmod(self._bytes, len(CLIENT_FRAME))
        if whole:
            self._transport.write(SERVER_FRAME * whole)


class PingPongCaller(asyncio.Protocol):
    """Sends a frame when told; `answered` is called for each answer, with itself."""

    def __init__(self, opened: Callable[[], None], answered: Callable[[PingPongCaller], None]) -> None:
        self._opened = opened
        self._answered = answered
        self.transport: asyncio.Transport
        self._head: bytes | None = b""
        self._bytes = 0
        self.sent_ns = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not registered as asyncio.Transport, so this cannot be an isinstance check.
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(_UPGRADE)

    def send(self, now_ns: int) -> None:
        self.sent_ns = now_ns
        self.transport.write(CLIENT_FRAME)

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            self._head += data
            if b"\r\n\r\n" not in self._head:
                return
            assert self._head.startswith(b"HTTP/1.1 101"), self._head[:200]
            self._head = None
            self._opened()
            return
        self._bytes += len(data)
        whole, self._bytes = divmod(self._bytes, len(SERVER_FRAME))
        for _ in range(whole):
            self._answered(self)
