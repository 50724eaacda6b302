"""When a caller who says nothing is spoken to, and how often. Counts media time only. Pure."""

from __future__ import annotations

from typing import Final

__all__ = ["SilentCaller"]

_MOST: Final = 3
"""In a row: whoever says nothing to three questions is not there, and what the agent made of that it has done by then."""


class SilentCaller:
    """Times are milliseconds of the caller's media clock."""

    __slots__ = ("_asked", "_since_ms")

    def __init__(self, asked: int = 0, since_ms: int = 0) -> None:
        self._asked = asked
        self._since_ms = since_ms

    @property
    def state(self) -> tuple[int, int]:
        """What `SilentCaller(*state)` goes on from."""
        return self._asked, self._since_ms

    def agent_finished(self, at_ms: int) -> None:
        """The agent's last word is heard at `at_ms`: the silence begins."""
        self._since_ms = at_ms

    def spoke(self) -> None:
        """The caller is there."""
        self._asked = 0

    def due(self, now_ms: int, wait_ms: int) -> int:
        """Whether to ask now, after `wait_ms` of silence: the how-manieth time in a row, else 0. `wait_ms` 0: never."""
        if not wait_ms or self._asked >= _MOST or now_ms - self._since_ms < wait_ms:
            return 0
        self._since_ms = now_ms
        self._asked += 1
        return self._asked
