"""Between two messages of its caller a session is whole: who wants to look at it is let in there, never in the midst of one."""

from __future__ import annotations

from collections.abc import Callable

import anyio

__all__ = ["MessageBoundary"]


class MessageBoundary:
    """One reader enters with each message and leaves after it, and never waits: a look that waits is taken as it leaves, in the
    same step, so that nothing of the next message is in what it sees, wherever it looks.

    So a caller who sends without a pause cannot keep anybody out, and no lock stands in the way of each frame.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[], None], anyio.Event]] = []
        self.is_within = False

    def enter(self) -> None:
        self.is_within = True

    def leave(self) -> None:
        self.is_within = False
        while self._waiting:
            take, taken = self._waiting.pop(0)
            take()
            taken.set()

    async def look(self, take: Callable[[], None]) -> None:
        """Takes the look now, or as soon as the message that is being obeyed has been; returns behind it."""
        if not self.is_within:
            take()
            return
        waiting = take, anyio.Event()
        self._waiting.append(waiting)
        try:
            await waiting[1].wait()
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
