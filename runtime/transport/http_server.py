"""The runtime's HTTP/1.1 port: uvicorn with our WebSocket protocol class, run inside somebody else's task group."""

from __future__ import annotations

import socket
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from runtime.transport.realtime_endpoint import ABORT_KEY

__all__ = ["LONGEST_MESSAGE_BYTES", "HttpServer", "listen"]

LONGEST_MESSAGE_BYTES: Final = 1024 * 1024
"""Larger WebSocket messages are refused with 1009 before they are held in memory."""


class _AbortableProtocol(WebSocketsSansIOProtocol):
    """Hands the application a way to drop the socket at once: an orderly close waits for a caller that never reads."""

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if hasattr(self, "scope"):  # absent where the handshake itself was refused
            self.scope["state"][ABORT_KEY] = self.transport.abort


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

    def __init__(self, app: ASGIApp, ping_interval_s: float) -> None:
        config = uvicorn.Config(
            app,
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
            timeout_graceful_shutdown=2,
            limit_concurrency=None,
        )
        self._server = _EmbeddedServer(config)

    async def run(self, listener: socket.socket) -> None:
        """Returns after `stop`, when the connections are closed."""
        await self._server.serve([listener])

    def stop(self) -> None:
        self._server.should_exit = True
