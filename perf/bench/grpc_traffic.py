"""gRPC streams for a benchmark, as bare HTTP/2 (RFC 9113) with prebuilt frames, so that both ends cost little beside the proxy.

One stream a connection at the caller's side; the echo takes as many as a proxy brings. Messages have 640 bytes. Windows are
opened as wide as they can be at once and never again: enough for two gigabytes a connection. Not for use with strangers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from protos.switchboard.v1 import voice_pb2 as pb

__all__ = ["EchoServer", "StreamCaller"]

PAYLOAD_BYTES: Final = 640
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM: Final = 1
_END_HEADERS: Final = 4
_ACK: Final = 1
_HEAD_BYTES: Final = 9
_WIDEST: Final = 2**31 - 1


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _literal(name: bytes, value: bytes) -> bytes:
    """RFC 7541 section 6.2.2, a literal that is not indexed."""
    return bytes((0, len(name))) + name + bytes((len(value),)) + value


def _prefixed(payload: bytes) -> bytes:
    return b"\0" + len(payload).to_bytes(4, "big") + payload


_WIDE: Final = _frame(_SETTINGS, 0, 0, b"\0\4" + _WIDEST.to_bytes(4, "big")) + _frame(
    _WINDOW, 0, 0, (_WIDEST - 65_535).to_bytes(4, "big")
)
_MESSAGE: Final = _prefixed(b"a" * PAYLOAD_BYTES)
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_REQUEST: Final = b"".join(
    (
        _literal(b":method", b"POST"),
        _literal(b":scheme", b"http"),
        _literal(b":path", b"/switchboard.v1.VoiceAgent/Converse"),
        _literal(b":authority", b"bench"),
        _literal(b"content-type", b"application/grpc"),
        _literal(b"te", b"trailers"),
    )
)
_CALLER_FRAME: Final = _frame(_DATA, 0, 1, _MESSAGE)
_RESPONSE: Final = _literal(b":status", b"200") + _literal(b"content-type", b"application/grpc")


_FIRST: Final = pb.ConverseRequest(config=pb.SessionConfig(instructions="x" * (PAYLOAD_BYTES - 6))).SerializeToString()
"""A first message that is valid at our own door, as long as all others."""


class _Peer(asyncio.Protocol):
    """Cuts what comes into frames, and answers those that want an answer."""

    skip_bytes = 0
    """What comes before the first frame."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not registered as asyncio.Transport, so this cannot be an isinstance check.
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._held:
            data = self._held + data
        at, size = self.skip_bytes, len(data)
        if size < at:
            self._held = data
            return
        self.skip_bytes = 0
        while size - at >= _HEAD_BYTES:
            end = at + _HEAD_BYTES + (data[at] << 16 | data[at + 1] << 8 | data[at + 2])
            if end > size:
                break
            kind, flags = data[at + 3], data[at + 4]
            if kind == _DATA:
                self.data_came(int.from_bytes(data[at + 5 : at + 9], "big"), end - at - _HEAD_BYTES)
            elif kind in (_SETTINGS, _PING):
                if not flags & _ACK:
                    answer = data[at + _HEAD_BYTES : end] if kind == _PING else b""
                    self.transport.write(_frame(kind, _ACK, 0, answer))
            elif kind == _HEADERS:
                self.headers_came(int.from_bytes(data[at + 5 : at + 9], "big"), is_end=bool(flags & _END_STREAM))
            elif kind in (_RESET, _GOAWAY):
                self.reset()
            at = end
        self._held = data[at:]

    def data_came(self, stream: int, size: int) -> None:
        raise NotImplementedError

    def headers_came(self, stream: int, *, is_end: bool) -> None:
        raise NotImplementedError

    def reset(self) -> None:
        """A stream or the connection was given up by the other side."""


class EchoServer(_Peer):
    """Answers each message of each stream with one as long."""

    skip_bytes = len(_PREFACE)

    def __init__(self) -> None:
        super().__init__()
        self._bytes: dict[int, int] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.write(_WIDE)

    def headers_came(self, stream: int, *, is_end: bool) -> None:
        if not is_end:
            self._bytes[stream] = 0
            self.transport.write(_frame(_HEADERS, _END_HEADERS, stream, _RESPONSE))

    def data_came(self, stream: int, size: int) -> None:
        whole, self._bytes[stream] = divmod(self._bytes[stream] + size, len(_MESSAGE))
        if whole:
            self.transport.write(_frame(_DATA, 0, stream, _MESSAGE) * whole)


class StreamCaller(_Peer):
    """One stream. Sends a message when told; `answered` is called for each answer, with itself. The first one is `opened`."""

    def __init__(self, opened: Callable[[], None], answered: Callable[[StreamCaller], None]) -> None:
        super().__init__()
        self._opened = opened
        self._answered = answered
        self._is_open = False
        self._bytes = 0
        self.sent_ns = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        first = _frame(_HEADERS, _END_HEADERS, 1, _REQUEST) + _frame(_DATA, 0, 1, _prefixed(_FIRST))
        self.transport.write(_PREFACE + _WIDE + first)

    def send(self, now_ns: int) -> None:
        self.sent_ns = now_ns
        self.transport.write(_CALLER_FRAME)

    def headers_came(self, stream: int, *, is_end: bool) -> None:  # noqa: ARG002  # it has one
        assert not is_end, "the stream was ended by the other side"

    def reset(self) -> None:
        raise AssertionError("the stream was reset by the other side")

    def data_came(self, stream: int, size: int) -> None:  # noqa: ARG002  # it has one
        whole, self._bytes = divmod(self._bytes + size, len(_MESSAGE))
        for _ in range(whole):
            if self._is_open:
                self._answered(self)
            else:
                self._is_open = True
                self._opened()
