"""How a WebSocket server closes."""

from __future__ import annotations

import anyio
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

__all__ = ["close_of"]


async def close_of(connection: ClientConnection, within_s: float = 20.0) -> str:
    """Reads until the server closes: its code and reason. Fails where it does not in time."""
    with anyio.fail_after(within_s):
        try:
            while True:
                await connection.recv()
        except ConnectionClosed as closed:
            return f"{closed.rcvd.code} {closed.rcvd.reason}" if closed.rcvd is not None else "no close frame"
