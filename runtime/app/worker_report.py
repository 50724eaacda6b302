"""What a worker says to its supervisor, over a pipe of its own: one JSON line when it is ready, and an empty line as a beat.

Standard output is the agent's: what an agent prints is neither taken for ours nor able to fill a pipe that nobody reads.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Final

import anyio

__all__ = ["BEAT_S", "ReportReader", "Reporter"]

BEAT_S: Final = 1.0
_LONGEST_LINE: Final = 64 * 1024


class Reporter:
    """The worker's end. Nothing here waits for the supervisor. Raises OSError where the descriptor is none."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        os.set_inheritable(descriptor, False)
        self._descriptor = descriptor

    def ready(self, document: dict[str, Any]) -> None:
        self._say(json.dumps(document))

    async def beat(self) -> None:
        """Says once a second that the event loop runs; until cancelled."""
        while True:
            self._say("")
            await anyio.sleep(BEAT_S)

    def _say(self, line: str) -> None:
        with contextlib.suppress(BlockingIOError, BrokenPipeError):  # a supervisor that stands still, or is gone
            os.write(self._descriptor, line.encode() + b"\n")


class ReportReader:
    """The supervisor's end, fed with what the pipe brought. What is no word of ours is dropped: others may have written it."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> dict[str, Any] | None:
        """The ready document, where it has come whole."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            self._rest = b""
        for line in lines:
            with contextlib.suppress(ValueError):
                document = json.loads(line)
                if isinstance(document, dict) and document.get("event") == "ready":
                    return document
        return None
