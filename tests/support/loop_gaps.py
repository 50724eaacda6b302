"""How long an event loop was kept from running, seen from inside it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import anyio

__all__ = ["longest_gap_ms"]


async def longest_gap_ms(work: Callable[[], Awaitable[object]]) -> float:
    """Runs `work` beside a task that wakes every millisecond; the longest time that it was late, in milliseconds."""
    longest_ns = 0

    async def watch() -> None:
        nonlocal longest_ns
        while True:
            before_ns = time.perf_counter_ns()
            await anyio.sleep(0.001)
            longest_ns = max(longest_ns, time.perf_counter_ns() - before_ns - 1_000_000)

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        await work()
        group.cancel_scope.cancel()
    return longest_ns / 1e6
