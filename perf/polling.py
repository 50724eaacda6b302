"""Waits for a fact that nobody announces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio

__all__ = ["until"]

_POLL_S: Final = 0.05


async def until(fact: Callable[[], bool], within_s: float) -> None:
    """Looks twenty times a second. Raises TimeoutError."""
    with anyio.fail_after(within_s):
        while True:
            if fact():
                return
            await anyio.sleep(_POLL_S)
