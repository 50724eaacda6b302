"""Keys of the caller's telephone, gathered to one entry: the hash key or a wait ends it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

__all__ = ["TelephoneKeys"]

_WAIT_S: Final = 1.5
"""After the last key. Media time stands still for who dials on a silent line, so this is the process's clock."""
_MOST: Final = 64
_END: Final = "#"


class TelephoneKeys:
    """`done` is told each entry, at most 64 keys long, without the hash key that ended it; an empty one is not told."""

    def __init__(self, start: Callable[[Callable[[], Awaitable[None]]], None], done: Callable[[str], None]) -> None:
        self._start = start
        self._done = done
        self._keys = ""
        self._count = 0

    @property
    def pending(self) -> str:
        """What was pressed and is no entry yet."""
        return self._keys

    def go_on(self, pending: str) -> None:
        """So much was pressed elsewhere; the wait for the next key begins anew."""
        if pending:
            self._keys = pending[:-1]
            self.press(pending[-1])

    def press(self, key: str) -> None:
        self._count += 1
        if key != _END:
            self._keys += key
        if key == _END or len(self._keys) >= _MOST:
            self._finish()
            return
        count = self._count

        async def wait() -> None:
            await anyio.sleep(_WAIT_S)
            if self._count == count:
                self._finish()

        self._start(wait)

    def _finish(self) -> None:
        keys, self._keys = self._keys, ""
        if keys:
            self._done(keys)
