"""An agent's tools: announced, timed, keyed, and every failure something that can be spoken."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from runtime.conversation.act_gate import ActGate
from runtime.conversation.client_tools import ClientTools
from runtime.conversation.intent_memory import IntentMemory
from runtime.conversation.tool_runner import ToolRunner
from runtime.dialogue.agent import Json, Tool, ToolFailure
from runtime.dialogue.agent_events import AgentEvent, ToolFinished, ToolRequested, ToolStarted
from runtime.dialogue.caller_events import ToolOutput
from runtime.dialogue.intents import Intent, IntentOutcome, StaleEpoch
from runtime.dialogue.session_settings import ClientTool
from tests.support.call_parts import tool

pytestmark = pytest.mark.anyio


class _Bench:
    def __init__(self, *tools: Tool, intents: IntentMemory | None = None, turn: int = 2, epoch: int = 1) -> None:
        self.events: list[AgentEvent] = []
        self.faults: list[BaseException] = []
        intents = intents or IntentMemory()
        self.client_tools = ClientTools()
        self.client_tools.declared = {"look_up": ClientTool("look_up")}
        self.run = ToolRunner(
            tools, self.client_tools, "s", epoch, "s", turn, 3, intents, ActGate(), self.events.append, self.faults.append
        )

    @property
    def finished(self) -> ToolFinished:
        last = self.events[-1]
        assert isinstance(last, ToolFinished)
        return last


async def test_a_tool_is_announced_run_and_its_result_shown() -> None:
    keys: list[str] = []

    async def add(arguments: Mapping[str, Json], key: str) -> Json:
        keys.append(key)
        return {"sum": 3}

    bench = _Bench(tool("add", add))
    assert await bench.run("add", {"a": 1}) == {"sum": 3}
    await bench.run("add", {})
    started = bench.events[0]
    assert isinstance(started, ToolStarted)
    assert (started.generation, started.call_id, json.loads(started.arguments_json)) == (3, "call_3_1", {"a": 1})
    assert json.loads(bench.finished.result_json) == {"sum": 3}
    assert keys == ["s:2:1", "s:2:2"]


@pytest.mark.parametrize("result", [math.nan, math.inf, object(), {"deep": [object()]}])
async def test_a_result_that_is_no_json_is_a_failure_of_the_tool(result: Any) -> None:
    async def odd(_: Mapping[str, Json], __: str) -> Json:
        return result  # type: ignore[no-any-return]  # the point of the test

    bench = _Bench(tool("odd", odd))
    with pytest.raises(ToolFailure):
        await bench.run("odd", {})
    assert bench.finished.is_error
    assert len(bench.faults) == 1


@pytest.mark.parametrize("is_idempotent", [False, True])
async def test_a_tool_that_takes_too_long_is_stopped_and_its_outcome_stated(is_idempotent: bool) -> None:
    async def slow(_: Mapping[str, Json], __: str) -> Json:
        await anyio.sleep_forever()
        raise AssertionError

    bench = _Bench(tool("slow", slow, deadline_s=0.01, is_idempotent=is_idempotent))
    with pytest.raises(ToolFailure) as failed:
        await bench.run("slow", {})
    assert failed.value.outcome_is_unknown is not is_idempotent
    assert bench.finished.is_error
    assert not bench.faults


async def test_what_a_tool_raises_stays_inside() -> None:
    async def broken(_: Mapping[str, Json], __: str) -> Json:
        raise RuntimeError("what the caller said")

    bench = _Bench(tool("broken", broken))
    with pytest.raises(ToolFailure) as failed:
        await bench.run("broken", {})
    assert "caller" not in str(failed.value)
    assert "caller" not in bench.finished.result_json
    assert len(bench.faults) == 1


async def test_an_unknown_tool_is_a_failure_and_is_not_announced() -> None:
    bench = _Bench()
    with pytest.raises(ToolFailure, match="no tool named 'fly'"):
        await bench.run("fly", {})
    assert not bench.events


class _Counted:
    def __init__(self, *, fails: bool = False) -> None:
        self.runs = 0
        self.fails = fails

    async def __call__(self, _: Mapping[str, Json], __: str) -> Json:
        self.runs += 1
        if self.fails:
            raise ToolFailure("no table is free")
        return {"run": self.runs}


async def test_the_same_effect_of_the_same_turn_happens_once() -> None:  # requirement C3
    intents, book = IntentMemory(), _Counted()
    first = _Bench(tool("book", book), intents=intents)
    again = _Bench(tool("book", book), intents=intents)
    assert await first.run("book", {"people": 4}) == await again.run("book", {"people": 4}) == {"run": 1}
    assert again.finished.result_json == '{"run": 1}'
    other = _Bench(tool("book", book), intents=intents)
    assert await other.run("book", {"people": 5}) == {"run": 2}  # other arguments are another intent
    later = _Bench(tool("book", book), intents=intents, turn=3)
    assert await later.run("book", {"people": 4}) == {"run": 3}


async def test_a_known_failure_is_told_again_and_not_tried_again() -> None:
    intents, book = IntentMemory(), _Counted(fails=True)
    for _ in range(2):
        with pytest.raises(ToolFailure, match="no table is free"):
            await _Bench(tool("book", book), intents=intents).run("book", {})
    assert book.runs == 1


@pytest.mark.parametrize("is_idempotent", [False, True])
async def test_what_was_begun_and_never_recorded_is_not_done_twice(is_idempotent: bool) -> None:  # requirement C3
    intents, book = IntentMemory(), _Counted()
    await intents.begin(Intent("s", 1, "s:2:1", "book", "{}"))  # the process died while the tool ran
    bench = _Bench(tool("book", book, is_idempotent=is_idempotent), intents=intents, epoch=2)
    if is_idempotent:
        assert await bench.run("book", {}) == {"run": 1}
    else:
        with pytest.raises(ToolFailure) as failed:
            await bench.run("book", {})
        assert failed.value.outcome_is_unknown
        assert book.runs == 0


async def test_a_leg_that_is_over_neither_acts_nor_records() -> None:
    intents, book = IntentMemory(), _Counted()
    await intents.begin(Intent("s", 2, "s:1:1", "other", "{}"))
    with pytest.raises(StaleEpoch):
        await _Bench(tool("book", book), intents=intents, epoch=1).run("book", {})
    with pytest.raises(StaleEpoch):
        await intents.finish(Intent("s", 1, "s:1:1", "other", "{}"), IntentOutcome("1", is_error=False))
    assert book.runs == 0


async def test_only_a_tool_with_effects_makes_its_turn_final() -> None:
    bench = _Bench(tool("look", _Counted(), is_idempotent=True), tool("book", _Counted()))
    await bench.run("look", {})
    assert not bench.run.had_effects
    await bench.run("book", {})
    assert bench.run.had_effects


async def test_a_tool_of_the_client_makes_its_turn_final() -> None:
    bench = _Bench()

    async def ask() -> None:
        assert await bench.run("look_up", {"city": "Paris"}) == {"hot": True}

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        (asked,) = bench.events
        assert isinstance(asked, ToolRequested)
        assert bench.client_tools.answer(ToolOutput(asked.call_id, '{"hot": true}'))
    assert bench.run.had_effects


async def test_a_cancel_that_nobody_of_ours_asked_for_is_a_fault_of_the_tool() -> None:
    async def look(_: Mapping[str, Json], __: str) -> Json:
        inner = asyncio.get_running_loop().create_future()
        inner.cancel()  # as a library's own time limit does
        await inner
        return None

    bench = _Bench(tool("look", look))
    with pytest.raises(ToolFailure, match="look failed"):
        await bench.run("look", {})
    assert [type(fault) for fault in bench.faults] == [asyncio.CancelledError]
    assert bench.finished.is_error


async def test_our_own_cancel_is_none() -> None:
    async def look(_: Mapping[str, Json], __: str) -> Json:
        await anyio.sleep_forever()
        return None

    bench = _Bench(tool("look", look))
    with anyio.move_on_after(0.05) as scope:
        await bench.run("look", {})
    assert scope.cancelled_caught
    assert not bench.faults
