"""Between two messages of its caller a session is whole: who wants to look at it is let in there, never in the midst of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import anyio

__all__ = ["MessageBoundary"]

T = TypeVar("T")


class _Look(Generic[T]):
    """`taken`: `value` is there."""

    def __init__(self) -> None:
        self.taken = anyio.Event()
        self.value: T | None = None


class MessageBoundary(Generic[T]):
    """One reader enters with each message and leaves after it, and never waits: a look that waits is taken as it leaves.

    So a caller who sends without a pause cannot keep anybody out, and no lock stands in the way of each frame.
    """

    def __init__(self, look: Callable[[], T]) -> None:
        self._look = look
        self._waiting: list[_Look[T]] = []
        self.is_within = False

    def enter(self) -> None:
        self.is_within = True

    def leave(self) -> None:
        self.is_within = False
        while self._waiting:
            waiting = self._waiting.pop(0)
            waiting.value = self._look()
            waiting.taken.set()

    async def look(self) -> T:
        """What the look answers, now or as soon as the message that is being obeyed has been."""
        if not self.is_within:
            return self._look()
        waiting: _Look[T] = _Look()
        self._waiting.append(waiting)
        try:
            await waiting.taken.wait()
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
        return waiting.value  # type: ignore[return-value]  # it was taken
