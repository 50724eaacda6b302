"""An agent's tools: announced, timed, keyed, and every failure something that can be spoken."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from runtime.conversation.tool_runner import ToolRunner
from runtime.dialogue.agent import Json, Tool, ToolFailure
from runtime.dialogue.agent_events import AgentEvent, ToolFinished, ToolStarted
from tests.support.call_parts import tool

pytestmark = pytest.mark.anyio


class _Bench:
    def __init__(self, *tools: Tool) -> None:
        self.events: list[AgentEvent] = []
        self.faults: list[Exception] = []
        self.run = ToolRunner(tools, "s", 3, self.events.append, self.faults.append)

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
    assert keys == ["s:3:1", "s:3:2"]


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
