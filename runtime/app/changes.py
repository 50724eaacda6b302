"""Waiting for a fact that others bring about: everybody who waits looks again after every change."""

from __future__ import annotations

from collections.abc import Callable

import anyio

__all__ = ["Changes"]


class Changes:
    """A condition without a lock, for the tasks of one event loop. A fact that came and went between two looks is not seen."""

    def __init__(self) -> None:
        self._next = anyio.Event()

    def tell(self) -> None:
        """Something has changed. Waits for nothing."""
        told, self._next = self._next, anyio.Event()
        told.set()

    async def until(self, fact: Callable[[], bool]) -> None:
        """Returns when `fact` holds: at once, or after the change that made it so."""
        while not fact():
            await self.next()

    async def next(self) -> None:
        """Returns after the next change."""
        await self._next.wait()
