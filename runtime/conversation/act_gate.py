"""Whether an agent may go on to act and to write. Shut while a session is handed over: what it does then, it does elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

__all__ = ["ActGate"]


class ActGate:
    """Open at first. `running` tools have passed it and are not done."""

    def __init__(self) -> None:
        self.running = 0
        self._opened = anyio.Event()
        self._opened.set()
        self._rests = anyio.Event()

    @asynccontextmanager
    async def passed(self) -> AsyncIterator[None]:
        """A tool, from its beginning to its end; waits while the gate is shut."""
        await self.opened()
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            if not self.running:
                self._rests.set()

    async def opened(self) -> None:
        """Waits while the gate is shut."""
        if not self._opened.is_set():
            await self._opened.wait()

    def shut(self) -> None:
        if self._opened.is_set():
            self._opened = anyio.Event()

    def open(self) -> None:
        self._opened.set()

    async def rest(self, at_most_s: float) -> None:
        """Returns when no tool runs, or after so long."""
        with anyio.move_on_after(at_most_s):
            while self.running:
                self._rests = anyio.Event()
                await self._rests.wait()
