"""A caller without a WebSocket library: it does only what the test tells it, so it can break every rule."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
from anyio.abc import SocketStream

from runtime.wire.websocket_frames import CLOSE, build_frame, parse_close

__all__ = ["RawCaller", "raw_caller", "raw_connection", "small_socket"]

TEXT, BINARY = 1, 2
_KEY = bytes(4)


class RawCaller:
    """Sends raw bytes or masked frames; reads only in `until_over`."""

    def __init__(self, stream: SocketStream) -> None:
        self.stream = stream
        self.read = b""

    async def send(self, opcode: int, payload: bytes) -> None:
        await self.stream.send(build_frame(opcode, payload, _KEY))

    async def say(self, **event: object) -> None:
        await self.send(TEXT, json.dumps(event).encode())

    async def until_over(self, within_s: float = 20.0) -> int | None:
        """Reads, and answers nothing, until the connection ends: the code of the last close frame, None without one."""
        with anyio.fail_after(within_s):
            try:
                while True:
                    self.read += await self.stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return _close_code(self.read)

    async def until_contains(self, *texts: str) -> None:
        with anyio.fail_after(20):
            while not all(map(self.contains, texts)):
                self.read += await self.stream.receive()

    def contains(self, text: str) -> bool:
        return text.encode() in self.read


def _close_code(received: bytes) -> int | None:
    """Walks over the server's frames."""
    at = 0
    while at + 2 <= len(received):
        opcode, length = received[at] & 0x0F, received[at + 1] & 0x7F
        at += 2
        if length > 125:
            extended = 2 if length == 126 else 8
            length = int.from_bytes(received[at : at + extended], "big")
            at += extended
        if opcode == CLOSE:
            return parse_close(received[at : at + length])
        at += length
    return None


def small_socket(address: str, receive_buffer_bytes: int) -> socket.socket:
    """Connected. With few bytes for what it does not read (0: the system's own bound), so that its peer soon has to wait."""
    host, _, port = address.rpartition(":")
    raw = socket.socket()
    if receive_buffer_bytes:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    try:
        raw.connect((host, int(port)))  # loopback: at once
    except OSError:
        raw.close()
        raise
    raw.setblocking(False)
    return raw


@asynccontextmanager
async def raw_connection(address: str, receive_buffer_bytes: int = 0) -> AsyncIterator[SocketStream]:
    stream = await SocketStream.from_socket(small_socket(address, receive_buffer_bytes))
    try:
        yield stream
    finally:
        await anyio.aclose_forcefully(stream)


@asynccontextmanager
async def raw_caller(url: str, receive_buffer_bytes: int = 0, headers: str = "") -> AsyncIterator[RawCaller]:
    """After the upgrade. Fails where the server refuses it."""
    address = urlsplit(url).netloc
    async with raw_connection(address, receive_buffer_bytes) as stream:
        request = (
            f"GET /v1/realtime HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
        )
        await stream.send(request.encode())
        answer = b""
        with anyio.fail_after(20):
            while b"\r\n\r\n" not in answer:
                answer += await stream.receive()
        head, _, rest = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101"), answer
        caller = RawCaller(stream)
        caller.read = rest
        yield caller
