"""A TCP connection that a test can cut."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

__all__ = ["Cable"]


class Cable:
    """Who connects to `address` (host:port) reaches `target`, over connections that can all be cut at once."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._ends: list[asyncio.StreamWriter] = []
        self._is_unplugged = False
        self.address = ""

    @asynccontextmanager
    async def plugged(self) -> AsyncIterator[Cable]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            self.cut()

    def unplug(self) -> None:
        """All connections are cut, and new ones at once, until `plug`."""
        self._is_unplugged = True
        self.cut()

    def plug(self) -> None:
        self._is_unplugged = False

    def cut(self) -> None:
        for end in self._ends:
            end.transport.abort()
        self._ends.clear()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_unplugged:
            writer.transport.abort()
            return
        host, _, port = self._target.rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        self._ends += [writer, far_writer]

        async def pour(source: asyncio.StreamReader, drain: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while data := await source.read(65_536):
                    drain.write(data)
                    await drain.drain()

        async with anyio.create_task_group() as group:
            group.start_soon(pour, reader, far_writer)
            await pour(far_reader, writer)
            group.cancel_scope.cancel()
        for end in (writer, far_writer):
            end.transport.abort()
