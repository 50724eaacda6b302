"""Tools that the client runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import anyio
import pytest

from runtime.conversation.client_tools import ClientTools
from runtime.dialogue.agent import ToolFailure, Turn
from runtime.dialogue.agent_events import AgentEvent, ReplyDone, ReplyStatus, SoftError, ToolRequested
from runtime.dialogue.caller_events import Configure, Interrupt, RequestReply, SayText, ToolOutput
from runtime.dialogue.session_settings import ClientTool, SessionSettings
from tests.support.call_parts import ScriptedAgent, ScriptedLink
from tests.support.conversations import conversing

pytestmark = pytest.mark.anyio
_WITH_TOOL = SessionSettings("scripted", tools=(ClientTool("weather"),))


async def _asks(turn: Turn) -> AsyncIterator[str]:
    try:
        found = await turn.call_tool("weather", {"city": "Paris"})
    except ToolFailure as failure:
        yield f"No: {failure}."
    else:
        yield f"It is {found}."


async def _asked(link: ScriptedLink) -> ToolRequested:
    await link.do(Configure(_WITH_TOOL), SayText("weather?"), RequestReply())
    return await link.until(ToolRequested)


async def test_the_answer_reaches_the_reply() -> None:
    async with conversing(ScriptedAgent(_asks)) as link:
        asked = await _asked(link)
        assert (asked.name, asked.arguments_json) == ("weather", '{"city": "Paris"}')
        await link.do(ToolOutput("call_other", "1"), ToolOutput(asked.call_id, '{"sky": "blue"}'))
        assert (await link.until(ReplyDone)).text == "It is {'sky': 'blue'}."
        assert [error.code for error in link.of(SoftError)] == ["tool_not_waiting"]


async def test_an_answer_that_is_no_json_is_text() -> None:
    async with conversing(ScriptedAgent(_asks)) as link:
        asked = await _asked(link)
        await link.do(ToolOutput(asked.call_id, "fine weather"))
        assert (await link.until(ReplyDone)).text == "It is fine weather."


@pytest.mark.parametrize(
    ("output", "text"), [('"\\ud800"', "It is \ufffd."), ("NaN", "It is NaN."), ("[" * 50_000, f"It is {'[' * 50_000}.")]
)
async def test_no_answer_can_break_the_call(output: str, text: str) -> None:
    async with conversing(ScriptedAgent(_asks), replace(_WITH_TOOL, speaks=False)) as link:
        await link.do(SayText("weather?"), RequestReply())
        asked = await link.until(ToolRequested)
        await link.do(ToolOutput(asked.call_id, output))
        done = await link.until(ReplyDone)
        assert (done.text, done.status) == (text, ReplyStatus.COMPLETED)


async def test_the_first_answer_counts() -> None:
    async with conversing(ScriptedAgent(_asks)) as link:
        asked = await _asked(link)
        await link.do(ToolOutput(asked.call_id, "sunny"), ToolOutput(asked.call_id, "rainy"))
        assert (await link.until(ReplyDone)).text == "It is sunny."
        assert [error.code for error in link.of(SoftError)] == ["tool_not_waiting"]


async def test_a_client_may_say_that_its_tool_failed() -> None:
    async with conversing(ScriptedAgent(_asks)) as link:
        asked = await _asked(link)
        await link.do(ToolOutput(asked.call_id, "no network", is_error=True))
        assert (await link.until(ReplyDone)).text == "No: no network."


async def test_an_undeclared_tool_is_unknown() -> None:
    async with conversing(ScriptedAgent(_asks)) as link:
        await link.do(SayText("weather?"), RequestReply())
        assert "no tool named" in (await link.until(ReplyDone)).text
        assert not link.of(ToolRequested)


async def test_a_cancelled_reply_forgets_its_question() -> None:
    async with conversing(ScriptedAgent(_asks)) as link:
        asked = await _asked(link)
        await link.do(Interrupt(), ToolOutput(asked.call_id, "1"))
        assert (await link.until(ReplyDone)).status is ReplyStatus.CANCELLED


async def test_an_answer_in_no_time_is_a_failure() -> None:
    told: list[AgentEvent] = []
    with pytest.raises(ToolFailure, match="in time") as failed, anyio.fail_after(20):
        await ClientTools().ask(ToolRequested(1, "call_1", "weather", "{}"), told.append, deadline_s=0.01)
    assert failed.value.outcome_is_unknown
    assert len(told) == 1


def test_an_answer_to_nobody_changes_nothing() -> None:
    assert not ClientTools().answer(ToolOutput("call_9", "1"))


async def test_of_two_answers_at_once_the_first_counts_and_is_whole_text() -> None:
    tools, asked, found = ClientTools(), ToolRequested(1, "call_1_1", "weather", "{}"), []

    async def ask() -> None:
        found.append(await tools.ask(asked, lambda _: None))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert tools.answer(ToolOutput("call_1_1", "sunny \ud800"))
        assert not tools.answer(ToolOutput("call_1_1", "rainy"))
    assert found == ["sunny \ufffd"]
