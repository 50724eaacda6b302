"""The agent that the calls of this measurement talk to: each turn has an effect that must happen once, and a long answer.

The effect is a line in the file that the environment names: who did it, under which idempotency key. The tool is not declared
idempotent, and it takes a while, so that a crash may come in its middle.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

import anyio

from runtime.dialogue.agent import Json, Tool, ToolFailure, Turn

__all__ = ["EFFECTS_FILE", "Bookkeeper"]

EFFECTS_FILE: Final = "SWITCHBOARD_EFFECTS"
_WORKS_S: Final = 0.15
_ENDING: Final = (
    "I have written that down for you. Please wait a moment while I look through the other pages of the book. "
    "There are some notes from this morning, and some from the day before."
)
"""About ten seconds of speech."""


async def _note(_: Mapping[str, Json], key: str) -> Json:
    file = os.environ.get(EFFECTS_FILE)
    if file is None:
        raise ToolFailure(f"{EFFECTS_FILE} names no file")
    await anyio.to_thread.run_sync(_append, Path(file), f"{key} {os.getpid()}\n")
    await anyio.sleep(_WORKS_S)
    return "noted"


def _append(file: Path, line: str) -> None:
    with file.open("a", encoding="utf-8") as book:
        book.write(line)


class Bookkeeper:
    """As `runtime.dialogue.agent.Agent` asks for."""

    name = "bookkeeper"
    tools = (Tool("note", "Writes something down.", {"type": "object"}, _note, is_idempotent=False),)

    async def reply(self, turn: Turn) -> AsyncIterator[str]:
        try:
            await turn.call_tool("note", {})
        except ToolFailure as failure:
            yield "I cannot say whether that was written down. " if failure.outcome_is_unknown else "That was not written down. "
        yield f"You said: {turn.text} "
        yield _ENDING
