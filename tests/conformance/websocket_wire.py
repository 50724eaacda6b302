"""What the callers of every WebSocket wire share: the upgrade, or what it was answered instead, and the end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

import anyio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from tests.conformance.callers import Caller, Refused
from tests.support.raw_websocket import small_socket

__all__ = ["over_websocket"]


class _ListeningCaller(Caller, Protocol):
    async def configure(self) -> None: ...

    async def listen(self) -> None: ...


AnyCaller = TypeVar("AnyCaller", bound=_ListeningCaller)


@asynccontextmanager
async def over_websocket(
    make: Callable[[ClientConnection], AnyCaller],
    url: str,
    session_id: str,
    headers: dict[str, str],
    *,
    configures: bool,
    reads: bool,
) -> AsyncIterator[AnyCaller]:
    """Not `reads`: nobody takes what comes, and the system holds little of it."""
    if session_id:
        headers = {**headers, "x-switchboard-session": session_id}
    sock = None if reads else small_socket(urlsplit(url).netloc, 2_048)
    try:
        connection = await connect(url, additional_headers=headers, max_queue=4096 if reads else 1, ping_interval=None, sock=sock)
    except InvalidStatus as error:
        raise _refused(error) from None
    caller = make(connection)
    async with anyio.create_task_group() as group:
        if reads:
            group.start_soon(caller.listen)
        if configures:
            await caller.configure()
        try:
            yield caller
        finally:
            group.cancel_scope.cancel()
            connection.transport.abort()


def _refused(error: InvalidStatus) -> Refused:
    response = error.response
    body = json.loads(response.body or b"{}")
    retry_ms = 1_000 * int(response.headers.get("Retry-After", "0"))
    return Refused(str(response.status_code), body["error"]["code"], retry_ms)
