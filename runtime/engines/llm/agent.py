"""The agent: asks the model, speaks what comes, runs the tools that it wants, and says so when it is late or gone."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Sequence
from enum import Enum
from typing import Any, Final

import anyio

from runtime.dialogue.agent import Tool, ToolFailure, Turn
from runtime.dialogue.strict_json import read_json
from runtime.engines.llm.chat import ChatStream, ToolCall
from runtime.engines.llm.http_lines import LlmUnavailable
from runtime.engines.llm.messages import END_CALL, TRANSFER_CALL, messages_of, tools_of
from runtime.engines.llm.settings import LlmSettings

__all__ = ["GONE", "LATE", "LlmAgent"]

LATE: Final = "One moment, please. "
GONE: Final = "I am sorry, I cannot answer right now. Please try again in a moment."
_MOST_ROUNDS: Final = 5
"""Of tools in one reply: a model that wants more goes round in circles."""
_CLOSE_S: Final = 1.0


class _Late(Enum):
    LATE = "late"


class LlmAgent:
    """Start it with `--agent runtime.engines.llm:LlmAgent`, or subclass it with tools and instructions of your own.

    A caller who interrupts ends the request: the connection is closed, and the model stops. The time to the first token is the
    `first_text` stage of a turn's latency, less its `transcript`. Holds no state of a call.
    """

    name = "llm"
    tools: Sequence[Tool] = ()

    def __init__(self, settings: LlmSettings | None = None) -> None:
        # The one place beside the application's settings that reads the environment: an agent is made without arguments.
        self._settings = settings or LlmSettings.from_environment(os.environ)

    async def reply(self, turn: Turn) -> AsyncIterator[str]:
        """Streams the model's words. Never raises for the model's sake: what fails becomes speech."""
        messages = messages_of(turn, self._settings.instructions)
        tools = tools_of(self.tools, turn)
        has_spoken = False
        for _ in range(_MOST_ROUNDS):
            stream = ChatStream(self._settings, messages, tools)
            try:
                is_first = True
                while (text := await self._next(stream, is_first=is_first)) is not None:
                    is_first = False
                    if text is not _Late.LATE:
                        yield text
                        has_spoken = True
                    elif not has_spoken:
                        yield LATE
                        has_spoken = True
            except LlmUnavailable:
                yield (" " if has_spoken else "") + GONE
                return
            finally:
                with anyio.move_on_after(_CLOSE_S, shield=True):
                    await stream.aclose()
            if not stream.calls:
                if not has_spoken:
                    yield GONE
                return
            messages.append({"role": "assistant", "content": None, "tool_calls": [_shown(call) for call in stream.calls]})
            for call in stream.calls:
                outcome = await _run(call, turn)
                messages.append({"role": "tool", "tool_call_id": call.call_id, "content": outcome})
        yield (" " if has_spoken else "") + GONE

    async def _next(self, stream: ChatStream, *, is_first: bool) -> str | _Late | None:
        """The next text; `_Late.LATE` where the first one lets the caller wait. Raises LlmUnavailable."""
        if is_first:
            with anyio.move_on_after(self._settings.first_token_s):
                return await stream.next_text()
            return _Late.LATE
        with anyio.move_on_after(self._settings.gap_s):
            return await stream.next_text()
        raise LlmUnavailable(f"no word for {self._settings.gap_s:g} s")


async def _run(call: ToolCall, turn: Turn) -> str:
    """The outcome as the model reads it: JSON, or why there is none."""
    try:
        arguments = read_json(call.arguments or "{}")
    except ValueError:
        return _failed("the arguments are no JSON")
    if not isinstance(arguments, dict):
        return _failed("the arguments are no JSON object")
    if call.name == END_CALL:
        turn.end_call()
        return json.dumps({"done": True})
    if call.name == TRANSFER_CALL:
        turn.transfer(str(arguments.get("target", "")))
        return json.dumps({"done": True})
    try:
        return json.dumps(await turn.call_tool(call.name, arguments))
    except ToolFailure as failure:
        unknown = " It is not known whether it was done." if failure.outcome_is_unknown else ""
        return _failed(f"{failure}.{unknown}")


def _failed(problem: str) -> str:
    return json.dumps({"error": problem})


def _shown(call: ToolCall) -> dict[str, Any]:
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
