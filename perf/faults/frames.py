"""As much of a WebSocket client as a fault needs: masked frames out, and an ear that answers pings."""

from __future__ import annotations

import contextlib
import json
import struct
from typing import Final

import anyio
from anyio.abc import SocketStream

__all__ = ["CLEAR", "UPDATE", "Ear", "closing", "message", "upgrade_request"]

_MASK: Final = b"\x00\x00\x00\x00"
"""Leaves the bytes readable."""
_PING: Final = 9
_PONG: Final = 10


def _frame(opcode: int, payload: bytes) -> bytes:
    assert len(payload) <= 125, "short frames only"
    return bytes((0x80 | opcode, 0x80 | len(payload))) + _MASK + payload


def message(document: object) -> bytes:
    """A text message; its JSON has at most 125 bytes."""
    return _frame(1, json.dumps(document, separators=(",", ":")).encode())


UPDATE: Final = message({"type": "session.update", "session": {"type": "realtime"}})
CLEAR: Final = message({"type": "input_audio_buffer.clear"})


def closing() -> bytes:
    return _frame(8, struct.pack("!H", 1000))


def upgrade_request(host: str, path: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ).encode()


class Ear:
    """Reads what the server sends, and answers. One reader."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._heard = bytearray()
        self._speaking = anyio.Lock()

    async def say(self, frame: bytes) -> None:
        """While somebody attends, pongs are sent as well: one at a time. Raises BrokenResourceError, ClosedResourceError."""
        async with self._speaking:
            await self._stream.send(frame)

    async def head(self) -> str:
        """The answer's head. Raises EndOfStream or BrokenResourceError where none comes."""
        while b"\r\n\r\n" not in self._heard:
            self._heard += await self._stream.receive()
        head, _, rest = bytes(self._heard).partition(b"\r\n\r\n")
        self._heard = bytearray(rest)
        return head.decode("latin-1")

    async def until(self, mark: bytes) -> None:
        """The next frame that holds this. Raises as `head`."""
        while True:
            while (frame := self._take()) is not None:
                if mark in frame[1]:
                    return
            self._heard += await self._stream.receive()

    async def to_the_end(self) -> None:
        """Reads until the connection is over, whatever ends it, and answers nothing."""
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                await self._stream.receive()

    async def attend(self) -> None:
        """Reads until the connection is over, and answers every ping."""
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while True:
                while (frame := self._take()) is not None:
                    if frame[0] == _PING:
                        await self.say(_frame(_PONG, frame[1]))
                self._heard += await self._stream.receive()

    def _take(self) -> tuple[int, bytes] | None:
        """The first whole frame: opcode and payload."""
        cut = self._next()
        if cut is None:
            return None
        begin, end = cut
        frame = self._heard[0] & 0x0F, bytes(self._heard[begin:end])
        del self._heard[:end]
        return frame

    def _next(self) -> tuple[int, int] | None:
        """Where the payload of the first whole frame lies. A server's frames are not masked."""
        if len(self._heard) < 2:
            return None
        length, begin = self._heard[1] & 0x7F, 2
        if length >= 126:
            size = 2 if length == 126 else 8
            begin += size
            if len(self._heard) < begin:
                return None
            length = int.from_bytes(self._heard[2:begin], "big")
        return (begin, begin + length) if len(self._heard) >= begin + length else None
