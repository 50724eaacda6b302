"""Calls of one process as JSON lines: what the bridges share. Runs in environments that hold nothing of ours.

On standard input {"open": CALL} and {"call": CALL, "event": {...}}; on standard output {"call": CALL, "event": {...}} for each
event that the library hands out, and {"call": CALL, "closed": "why"} at the end.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

_LONGEST_LINE = 2**22
_MOST_WAITING = 1_000


def say(call: str, **what: Any) -> None:
    sys.stdout.write(json.dumps({"call": call, **what}) + "\n")
    sys.stdout.flush()


async def serve(carry: Callable[[str, asyncio.Queue[Any]], Awaitable[str]]) -> None:
    """`carry` holds one call, takes what it is to send from the queue, and answers why the call is over."""

    async def hold(call: str, events: asyncio.Queue[Any]) -> None:
        say(call, closed=await carry(call, events))

    lines = asyncio.StreamReader(limit=_LONGEST_LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    calls: dict[str, asyncio.Queue[Any]] = {}
    async with asyncio.TaskGroup() as group:
        held = []
        async for line in lines:
            said = json.loads(line)
            if "open" in said:
                calls[said["open"]] = asyncio.Queue(_MOST_WAITING)
                held.append(group.create_task(hold(said["open"], calls[said["open"]])))
            else:
                await calls[said["call"]].put(said["event"])
        for task in held:
            task.cancel()
