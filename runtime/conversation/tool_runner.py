"""Runs tools inside one reply, the agent's here and the client's there: announced, timed, recorded, cancelled with the reply."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import anyio

from runtime.conversation.act_gate import ActGate
from runtime.conversation.author_faults import is_fault
from runtime.conversation.client_tools import ClientTools
from runtime.conversation.ports import IntentStore
from runtime.dialogue.agent import Json, Tool, ToolFailure
from runtime.dialogue.agent_events import AgentEvent, ToolFinished, ToolRequested, ToolStarted
from runtime.dialogue.intents import Intent, IntentOutcome, IntentRecord, IntentState

__all__ = ["ToolRunner"]


class ToolRunner:
    """The tools of one reply.

    The idempotency key is `stem:turn:n`: the same for the n-th tool of the same turn, wherever it is tried again, and no other
    session's, not even of one that has the same name: `key_stem` is a session's own. The intent
    is stored before a tool runs and its outcome before that is spoken of. A tool that is not declared idempotent is never run
    twice under one key: where its outcome was not recorded, it fails with an unknown outcome, and the agent says so.

    Attributes:
        told: how many tools were announced, and of how many the outcome.
        had_effects: a tool that is not idempotent was begun: its turn can no longer be taken as not said.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        client_tools: ClientTools,
        session_id: str,
        epoch: int,
        key_stem: str,
        turn: int,
        generation: int,
        intents: IntentStore,
        gate: ActGate,
        emit: Callable[[AgentEvent], None],
        on_fault: Callable[[BaseException], None],
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._client_tools = client_tools
        self._session_id = session_id
        self._epoch = epoch
        self._prefix = f"{key_stem}:{turn}"
        self._generation = generation
        self._intents = intents
        self._gate = gate
        self._emit = emit
        self._on_fault = on_fault
        self._count = 0
        self.told = (0, 0)
        self._told_before = (0, 0)
        self.had_effects = False

    async def may_go_on(self) -> None:
        """Waits while the session is being handed over."""
        await self._gate.opened()

    async def __call__(self, name: str, arguments: Mapping[str, Json]) -> Json:
        tool = self._tools.get(name)
        if tool is None and name not in self._client_tools.declared:
            raise ToolFailure(f"there is no tool named {name!r}")
        self._count += 1
        number = self._count
        call_id = f"call_{self._generation}_{number}"
        arguments_json = _json(arguments)
        if tool is None:
            self.had_effects = True  # what a client does is out of our sight
            return await self._client_tools.ask(ToolRequested(self._generation, call_id, name, arguments_json), self._emit)
        self.told = (max(number, self.told[0]), self.told[1])
        if number > self._told_before[0]:
            self._emit(ToolStarted(self._generation, call_id, name, arguments_json))
        intent = Intent(self._session_id, self._epoch, f"{self._prefix}:{number}", name, arguments_json)
        try:
            async with self._gate.passed():
                result = await self._once(tool, arguments, intent)
        except ToolFailure as failure:
            self._finished(number, call_id, name, arguments_json, str(failure), is_error=True)
            raise
        self._finished(number, call_id, name, arguments_json, result, is_error=False)
        return result

    async def _once(self, tool: Tool, arguments: Mapping[str, Json], intent: Intent) -> Json:
        record = await self._intents.begin(intent)
        if record.state is IntentState.FINISHED:
            return _known(record)
        if record.state is IntentState.UNKNOWN and not tool.is_idempotent:
            raise ToolFailure(f"{tool.name} may or may not have been done already", outcome_is_unknown=True)
        self.had_effects = self.had_effects or not tool.is_idempotent
        try:
            result = await self._run(tool, arguments, intent.key)
        except ToolFailure as failure:
            if not failure.outcome_is_unknown:
                await self._intents.finish(intent, IntentOutcome(_json(str(failure)), is_error=True))
            raise
        await self._intents.finish(intent, IntentOutcome(_json(result), is_error=False))
        return result

    async def _run(self, tool: Tool, arguments: Mapping[str, Json], key: str) -> Json:
        try:
            with anyio.fail_after(tool.deadline_s):
                result = await tool.run(arguments, key)
            _json(result)  # what is no JSON value is the tool's fault, found while it can still be told
            return result
        except ToolFailure:
            raise
        except TimeoutError:
            raise ToolFailure(f"{tool.name} took too long", outcome_is_unknown=not tool.is_idempotent) from None
        except (Exception, BaseExceptionGroup, anyio.get_cancelled_exc_class()) as error:
            if not is_fault(error):
                raise
            # The author's code: whatever it raises becomes something that the agent can talk about.
            self._on_fault(error)
            raise ToolFailure(f"{tool.name} failed", outcome_is_unknown=not tool.is_idempotent) from error

    def go_on(self, told: tuple[int, int], *, had_effects: bool) -> None:
        """Another process has told the client of so many; they come again, and are not told again."""
        self.told = self._told_before = told
        self.had_effects = had_effects

    def _finished(self, number: int, call_id: str, name: str, arguments_json: str, result: Json, *, is_error: bool) -> None:
        self.told = (self.told[0], max(number, self.told[1]))
        if number > self._told_before[1]:
            self._emit(ToolFinished(self._generation, call_id, name, arguments_json, _json(result), is_error))


def _known(record: IntentRecord) -> Json:
    assert record.outcome is not None, "a finished intent has its outcome"
    value: Json = json.loads(record.outcome.result_json)
    if record.outcome.is_error:
        raise ToolFailure(str(value))
    return value


def _json(value: object) -> str:
    """Strict JSON: NaN and the infinities are none. Raises ValueError or TypeError."""
    return json.dumps(value, allow_nan=False)
