"""The runtime's HTTP/1.1 port: uvicorn with our WebSocket protocol class, run inside somebody else's task group."""

from __future__ import annotations

import asyncio
import math
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Final

import anyio
import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

from runtime.primitives.reasons import EndReason
from runtime.transport.asides import ASIDES_KEY, AsideExtension, AsideExtensionFactory, Asides
from runtime.transport.websocket_door import ABORT_KEY

__all__ = ["LONGEST_MESSAGE_BYTES", "HttpServer", "listen"]

LONGEST_MESSAGE_BYTES: Final = 1024 * 1024
"""Larger WebSocket messages are refused with 1009 before they are held in memory."""


_MOST_AHEAD_BYTES: Final = 256 * 1024
"""Of messages that wait for the application, before its socket is read no further. Four seconds of audio at 24 kHz."""
_ASIDES: Final = AsideExtensionFactory()
_CLOSING_S: Final = 2.0
"""How long a peer has to read what is left and to answer a close, before its socket is dropped."""
_GRACE_S: Final = 2


def _is_text(parts: Sequence[bytes]) -> bool:
    try:
        (parts[0] if len(parts) == 1 else b"".join(parts)).decode()
    except UnicodeDecodeError:
        return False
    return True


class _AbortableProtocol(WebSocketsSansIOProtocol):
    """Frees every socket in bounded time: an orderly close alone waits for ever for a peer that never reads.

    Also hands the application a way to drop the socket at once, and reads on, within a bound, while that is busy: behind
    a message that it has not taken yet come the pings by which a relay knows that we live, and the relay's orders.
    """

    _abort_timer: asyncio.TimerHandle | None = None
    _heard_at_s = 0.0
    _ahead_bytes = 0

    @cached_property
    def _ahead(self) -> deque[int]:
        """Sizes of the messages that wait for the application."""
        return deque()

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text" and not _is_text(self.frames):  # the library would tell the log all about it
            self.frames = []
            if not self.close_sent:
                self.conn.send_close(1007)
                self.handle_parser_exception()
            return
        size, waiting = sum(map(len, self.frames)), self.queue.qsize()
        super().send_receive_event_to_app()
        if self.queue.qsize() > waiting:
            self._ahead.append(size)
            self._ahead_bytes += size
            self._read_on()

    async def receive(self) -> ASGIReceiveEvent:
        message = await super().receive()
        if message["type"] == "websocket.receive" and self._ahead:
            self._ahead_bytes -= self._ahead.popleft()
            self._read_on()
        return message

    def _read_on(self) -> None:
        if self.read_paused and self._ahead_bytes <= _MOST_AHEAD_BYTES and not self.transport.is_closing():
            self.read_paused = False
            self.transport.resume_reading()

    def handle_connect(self, event: Request) -> None:
        self.conn.available_extensions = [_ASIDES]
        super().handle_connect(event)
        if hasattr(self, "scope"):  # absent where the handshake itself was refused
            self.scope["state"][ABORT_KEY] = self.transport.abort
            for extension in self.conn.extensions:
                if isinstance(extension, AsideExtension):
                    self.scope["state"][ASIDES_KEY] = Asides(extension, self.transport)

    def handle_close(self, event: Frame) -> None:
        super().handle_close(event)
        self._abort_later()

    def handle_parser_exception(self) -> None:
        asides: Asides | None = self.scope["state"].get(ASIDES_KEY) if hasattr(self, "scope") else None
        if asides is not None:
            asides.over(EndReason.PROTOCOL_ERROR)  # elsewhere the same bytes would be broken too
        super().handle_parser_exception()
        self._abort_later()

    def data_received(self, data: bytes) -> None:
        self._heard_at_s = self.loop.time()
        super().data_received(data)

    def keepalive_timeout(self) -> None:
        if self._heard_at_s > self.ping_sent_at or self.read_paused:
            # Media is a sign of life as good as a pong; and where we do not read, no pong could have come.
            self.pong_timer, self.pending_ping_payload = None, None
            self.schedule_ping()
            return
        super().keepalive_timeout()
        self._abort_later()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if self.close_sent:
            self._abort_later()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._abort_timer is not None:
            self._abort_timer.cancel()
        super().connection_lost(exc)

    def _abort_later(self) -> None:
        if self._abort_timer is None and not self.disconnected:
            self._abort_timer = self.loop.call_later(_CLOSING_S, self.transport.abort)


class _ImpatientProtocol(H11Protocol):
    """Drops a connection whose whole request has not come in time; uvicorn limits only the wait between two requests."""

    _request_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self._watch_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _watch_request(self) -> None:
        is_open = self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and self.transport.get_protocol() is self
        if not is_open:
            self._stop_timer()
        elif self._request_timer is None:
            self._request_timer = self.loop.call_later(self.timeout_keep_alive, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None


def listen(host: str, port: int) -> socket.socket:
    """A bound, listening TCP socket; port 0: the system chooses. Raises OSError where the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


class _EmbeddedServer(uvicorn.Server):
    """Leaves signals to the application."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]  # uvicorn's is a generator
        return nullcontext()


class HttpServer:
    """Serves an ASGI application on a listening socket until `stop`."""

    def __init__(self, app: ASGIApp, ping_interval_s: float, request_s: float) -> None:
        """Args: `request_s`: how long a connection may take for its whole request, rounded up to whole seconds."""
        config = uvicorn.Config(
            app,
            http=_ImpatientProtocol,
            timeout_keep_alive=math.ceil(request_s),
            ws=_AbortableProtocol,
            ws_max_size=LONGEST_MESSAGE_BYTES,
            ws_per_message_deflate=False,
            ws_ping_interval=ping_interval_s,
            ws_ping_timeout=ping_interval_s,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # a forwarded address could pass for loopback
            timeout_graceful_shutdown=_GRACE_S,
            limit_concurrency=None,
        )
        self._server = _EmbeddedServer(config)
        self._has_ended = anyio.Event()

    async def run(self, listener: socket.socket) -> None:
        """Returns after `stop`, when the connections are closed."""
        try:
            await self._server.serve([listener])
        finally:
            self._has_ended.set()

    async def stop(self) -> None:
        """Closes the listener and every connection, and returns when that is done: in a few seconds at most."""
        self._server.should_exit = True
        with anyio.move_on_after(_GRACE_S + 1):
            await self._has_ended.wait()
