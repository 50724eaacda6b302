"""A language model as an agent: its words stream, its tools run, and its failures are spoken."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

import anyio
import pytest

from runtime.dialogue.agent import Json, Role, Said, Tool, ToolFailure, Turn, TurnCause
from runtime.dialogue.session_settings import ClientTool
from runtime.engines.llm import LlmAgent
from runtime.engines.llm.agent import GONE, LATE
from runtime.engines.llm.settings import LlmSettings
from tests.support.call_parts import tool
from tests.support.fake_llm import FakeLlm, Pause, calls, fake_llm, text

pytestmark = pytest.mark.anyio


async def _no_tool(name: str, arguments: Mapping[str, Json]) -> Json:
    raise ToolFailure(f"there is no tool named {name!r}")


def _turn(said: str = "hello", **fields: Any) -> Turn:
    return Turn(**{"text": said, "history": (), "memory": {}, "call_tool": _no_tool, **fields})


def _agent(fake: FakeLlm, tools: tuple[Tool, ...] = (), **settings: Any) -> LlmAgent:
    agent = LlmAgent(LlmSettings(fake.url, "small", **settings))
    agent.tools = tools
    return agent


async def _said(agent: LlmAgent, turn: Turn) -> list[str]:
    with anyio.fail_after(20):
        return [piece async for piece in agent.reply(turn)]


async def test_words_come_as_they_are_made() -> None:
    async with fake_llm(text("Good ", "morning.")) as fake:
        assert await _said(_agent(fake, api_key="secret"), _turn()) == ["Good ", "morning."]
    assert fake.headers[0]["authorization"] == "Bearer secret"
    assert (fake.requests[0]["model"], fake.requests[0]["stream"]) == ("small", True)
    assert fake.requests[0]["messages"][-1] == {"role": "user", "content": "hello"}


async def test_the_model_is_told_what_was_heard_and_who_calls() -> None:
    history = (
        Said(Role.SYSTEM, "Be brief."),
        Said(Role.CALLER, "hi"),
        Said(Role.AGENT, "Good", is_complete=False),
    )
    async with fake_llm(text("Yes.")) as fake:
        await _said(_agent(fake), _turn("go on", history=history, metadata={"from": "+49"}, instructions="You sell hats."))
    system, *rest = fake.requests[0]["messages"]
    assert system["content"].startswith("You sell hats.")
    assert "from: +49" in system["content"]
    assert [message["role"] for message in rest] == ["system", "user", "assistant", "user"]
    assert rest[2]["content"] == "Good (the caller interrupted you here)"


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        (_turn("", cause=TurnCause.SILENCE, silences=1), "(The caller says nothing.)"),
        (_turn("42", cause=TurnCause.KEYS), "(The caller pressed the keys 42.)"),
        (_turn(""), "(The caller said something that could not be understood.)"),
    ],
)
async def test_what_is_no_speech_is_described(turn: Turn, expected: str) -> None:
    async with fake_llm(text("Yes.")) as fake:
        await _said(_agent(fake), turn)
    assert fake.requests[0]["messages"][-1]["content"] == expected


async def test_tools_run_and_their_outcome_goes_back_to_the_model() -> None:
    ran: list[tuple[str, Mapping[str, Json]]] = []

    async def call_tool(name: str, arguments: Mapping[str, Json]) -> Json:
        ran.append((name, arguments))
        if name == "fail":
            raise ToolFailure("no table is free")
        return {"booked": True}

    async with fake_llm([*text("One second. "), *calls(("book", '{"people": 4}'), ("fail", ""))], text("Done.")) as fake:
        turn = _turn(call_tool=call_tool, client_tools=(ClientTool("fail", "fails", '{"type": "object"}'),))
        assert await _said(_agent(fake, (tool("book", _never),)), turn) == ["One second. ", "Done."]
    assert ran == [("book", {"people": 4}), ("fail", {})]
    assert [entry["function"]["name"] for entry in fake.requests[0]["tools"]] == ["book", "fail", "end_call", "transfer_call"]
    asked, first, second = fake.requests[1]["messages"][-3:]
    assert [call["id"] for call in asked["tool_calls"]] == ["call_0", "call_1"]
    assert first == {"role": "tool", "tool_call_id": "call_0", "content": '{"booked": true}'}
    assert "no table is free" in second["content"]


async def _never(_: Mapping[str, Json], __: str) -> Json:
    raise AssertionError("the turn runs tools, not the agent")


async def test_the_model_can_end_and_hand_over_the_call() -> None:
    ended: list[int] = []
    targets: list[str] = []
    wanted = calls(("end_call", "{}"), ("transfer_call", '{"target": "billing"}'))
    async with fake_llm(wanted, text("Goodbye.")) as fake:
        turn = _turn(end_call=lambda: ended.append(1), transfer=targets.append)
        assert await _said(_agent(fake), turn) == ["Goodbye."]
    assert (ended, targets) == ([1], ["billing"])


async def test_arguments_that_are_no_json_are_told_to_the_model() -> None:
    async with fake_llm(calls(("book", "{people")), text("Sorry.")) as fake:
        assert await _said(_agent(fake), _turn()) == ["Sorry."]
    assert "no JSON" in fake.requests[1]["messages"][-1]["content"]


async def test_a_model_that_is_late_is_covered_for_and_still_heard() -> None:  # requirement U1
    go_on = anyio.Event()
    async with fake_llm([Pause(go_on), *text("Here I am.")]) as fake:
        pieces: list[str] = []
        with anyio.fail_after(20):
            async for piece in _agent(fake, first_token_s=0.05).reply(_turn()):
                pieces.append(piece)
                go_on.set()
    assert pieces == [LATE, "Here I am."]
    assert len(fake.requests) == 1  # it was not asked twice


@pytest.mark.parametrize(
    "answer",
    [
        500,
        401,
        [],
        [b"data: nonsense\n\n"],
        [b'data: {"error": {"message": "overloaded"}}\n\n'],
        [b'data: {"choices": "odd"}\n\n'],
        [b"data: " + b"x" * 300_000],
    ],
)
async def test_whatever_fails_is_spoken(answer: Any) -> None:
    async with fake_llm(answer) as fake:
        assert await _said(_agent(fake), _turn()) == [GONE]


async def test_a_model_that_stops_in_mid_sentence_is_excused() -> None:
    never = anyio.Event()
    async with fake_llm([*text("I think"), Pause(never)]) as fake:
        assert await _said(_agent(fake, gap_s=0.05), _turn()) == ["I think", " " + GONE]


async def test_nobody_there_is_spoken_too() -> None:
    async with fake_llm() as fake:
        pass
    assert await _said(_agent(fake), _turn()) == [GONE]


async def test_a_model_that_goes_round_in_circles_is_stopped() -> None:
    async with fake_llm(*[calls(("look", "{}"))] * 5) as fake:
        assert await _said(_agent(fake), _turn()) == [GONE]
    assert len(fake.requests) == 5


async def test_who_interrupts_stops_the_model() -> None:  # requirement V2
    never = anyio.Event()
    async with fake_llm([*text("Once upon a time"), Pause(never)]) as fake:
        reply = _agent(fake).reply(_turn())
        assert isinstance(reply, AsyncGenerator)
        assert await anext(reply) == "Once upon a time"
        await reply.aclose()
        with anyio.fail_after(20):
            await fake.has_left.wait()
    assert fake.left == 1


async def test_no_tool_is_named_twice() -> None:
    async def look(_: Mapping[str, Json], __: str) -> Json:
        return 1

    clients = (ClientTool("look"), ClientTool("end_call"), ClientTool("weather"))
    async with fake_llm(text("Yes.")) as fake:
        await _said(_agent(fake, tools=(tool("look", look),)), _turn(client_tools=clients))
    names = [each["function"]["name"] for each in fake.requests[0]["tools"]]
    assert sorted(names) == ["end_call", "look", "transfer_call", "weather"]


async def test_arguments_that_python_would_take_for_json_are_told_to_the_model() -> None:
    for arguments in ('{"a": NaN}', "[" * 50_000):
        async with fake_llm(calls(("look", arguments)), text("Sorry.")) as fake:
            assert await _said(_agent(fake), _turn()) == ["Sorry."]
        assert "no JSON" in fake.requests[1]["messages"][-1]["content"]
