"""Runs tools inside one reply, the agent's here and the client's there: announced, timed, recorded, cancelled with the reply."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import anyio

from runtime.conversation.client_tools import ClientTools
from runtime.dialogue.agent import Json, Tool, ToolFailure
from runtime.dialogue.agent_events import AgentEvent, ToolFinished, ToolRequested, ToolStarted

__all__ = ["ToolRunner"]


class ToolRunner:
    """The tools of one reply.

    The idempotency key is `session:generation:n`: the same for the n-th tool of the same reply, wherever it is tried again.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        session_id: str,
        generation: int,
        emit: Callable[[AgentEvent], None],
        on_fault: Callable[[Exception], None],
        client_tools: ClientTools | None = None,
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._prefix = f"{session_id}:{generation}"
        self._generation = generation
        self._emit = emit
        self._on_fault = on_fault
        self._client_tools = client_tools or ClientTools()
        self._count = 0

    async def __call__(self, name: str, arguments: Mapping[str, Json]) -> Json:
        tool = self._tools.get(name)
        if tool is None and name in self._client_tools.declared:
            self._count += 1
            request = ToolRequested(self._generation, f"call_{self._generation}_{self._count}", name, _json(arguments))
            return await self._client_tools.ask(request, self._emit)
        if tool is None:
            raise ToolFailure(f"there is no tool named {name!r}")
        self._count += 1
        call_id = f"call_{self._generation}_{self._count}"
        arguments_json = _json(arguments)
        self._emit(ToolStarted(self._generation, call_id, name, arguments_json))
        try:
            result = await self._run(tool, arguments)
        except ToolFailure as failure:
            self._finished(call_id, name, arguments_json, str(failure), is_error=True)
            raise
        self._finished(call_id, name, arguments_json, result, is_error=False)
        return result

    async def _run(self, tool: Tool, arguments: Mapping[str, Json]) -> Json:
        try:
            with anyio.fail_after(tool.deadline_s):
                result = await tool.run(arguments, f"{self._prefix}:{self._count}")
            _json(result)  # what is no JSON value is the tool's fault, found while it can still be told
            return result
        except ToolFailure:
            raise
        except TimeoutError:
            raise ToolFailure(f"{tool.name} took too long", outcome_is_unknown=not tool.is_idempotent) from None
        except Exception as error:
            # The author's code: whatever it raises becomes something that the agent can talk about.
            self._on_fault(error)
            raise ToolFailure(f"{tool.name} failed", outcome_is_unknown=not tool.is_idempotent) from error

    def _finished(self, call_id: str, name: str, arguments_json: str, result: Json, *, is_error: bool) -> None:
        self._emit(ToolFinished(self._generation, call_id, name, arguments_json, _json(result), is_error))


def _json(value: object) -> str:
    """Strict JSON: NaN and the infinities are none. Raises ValueError or TypeError."""
    return json.dumps(value, allow_nan=False)
