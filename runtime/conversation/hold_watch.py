"""Ends a hold of which nothing more is heard: a microphone that was closed in mid-word decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio

__all__ = ["HoldWatch"]

_LONGEST_S: Final = 2.0
"""Without any more of the caller's audio. On the process's clock, since media time is what stands still."""


class HoldWatch:
    """Args:
    is_held: whether the output is still held.
    media_time_ms: how much of the caller's audio was heard.
    give_up: lets the output go on.
    """

    def __init__(self, is_held: Callable[[], bool], media_time_ms: Callable[[], int], give_up: Callable[[], None]) -> None:
        self._is_held = is_held
        self._media_time_ms = media_time_ms
        self._give_up = give_up
        self._count = 0

    async def run(self) -> None:
        """Watches the hold that has just begun; returns when it is over, whatever ended it."""
        self._count += 1
        count, heard_ms = self._count, -1
        while self._is_held() and self._count == count:
            if heard_ms == self._media_time_ms():
                self._give_up()
                return
            heard_ms = self._media_time_ms()
            await anyio.sleep(_LONGEST_S)
