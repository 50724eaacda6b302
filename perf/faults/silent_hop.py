"""A network that falls silent: a TCP hop that forwards until it is told to stop, and from then on loses what either side says."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import SocketAttribute, SocketStream

__all__ = ["SilentHop", "silent_hop"]


class SilentHop:
    """One connection through it, to `far`. Neither side is told that the other hears nothing."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._is_silent = False
        self._far_hung_up = anyio.Event()

    def fall_silent(self) -> None:
        """From now on nothing comes through, not even the end of a side."""
        self._is_silent = True

    async def until_far_hung_up(self) -> None:
        await self._far_hung_up.wait()

    async def join(self, near: SocketStream, far: SocketStream) -> None:
        async with near, far, anyio.create_task_group() as group:
            group.start_soon(self._forward, near, far)
            await self._forward(far, near)
            self._far_hung_up.set()
            if self._is_silent:
                await anyio.sleep_forever()
            group.cancel_scope.cancel()

    async def _forward(self, source: SocketStream, sink: SocketStream) -> None:
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while True:
                heard = await source.receive()
                if not self._is_silent:
                    await sink.send(heard)


@asynccontextmanager
async def silent_hop(far_address: str) -> AsyncIterator[SilentHop]:
    """Listens until the block ends, which tears whatever goes through it. `far_address`: host:port."""
    host, _, port = far_address.rpartition(":")
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        hop = SilentHop(f"127.0.0.1:{listener.extra(SocketAttribute.local_port)}")

        async def joined(near: SocketStream) -> None:
            async with near:
                with contextlib.suppress(OSError):  # nobody is there: the near side is hung up on
                    await hop.join(near, await anyio.connect_tcp(host, int(port)))

        async def accept() -> None:
            await listener.serve(joined)

        group.start_soon(accept)
        yield hop
        group.cancel_scope.cancel()
