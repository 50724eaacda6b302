"""One result that a native thread hands to one task of an event loop."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

__all__ = ["Completion"]

T = TypeVar("T")


class Completion(Generic[T]):
    """Made by the task that will wait, inside its event loop (asyncio or uvloop); settled once, from any thread.

    This is the only place where engines meet an event loop, so an engine can be built before any loop runs and can serve
    several loops.
    """

    __slots__ = ("_error", "_future", "_loop", "_value")

    def __init__(self) -> None:
        # A bare future: one is made for every frame of every caller, and an event of the portable kind costs ten times as much.
        self._loop = asyncio.get_running_loop()
        self._future = self._loop.create_future()
        self._value: T | None = None
        self._error: BaseException | None = None

    def succeed(self, value: T) -> None:
        """May be called from any thread. A loop that has been closed meanwhile has nobody waiting: nothing happens."""
        self._value = value
        self._wake()

    def fail(self, error: BaseException) -> None:
        """As `succeed`; the waiter raises `error`."""
        self._error = error
        self._wake()

    async def wait(self) -> T:
        """The value, or raises the error. Cancelling the wait leaves the work to its thread; its result is dropped."""
        await self._future
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # breaks the cycle error -> traceback -> frame -> self
        return self._value  # type: ignore[return-value]  # set before the event

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._settle)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    def _settle(self) -> None:
        if not self._future.done():  # else the wait was cancelled
            self._future.set_result(None)
