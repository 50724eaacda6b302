"""The example agent that uses the client's tools. Its source is `examples/client_tools_agent.py`."""

from __future__ import annotations

from collections.abc import Mapping

import anyio
import pytest

from examples.client_tools_agent import ClientToolsAgent
from runtime.dialogue.agent import Agent, Json, ToolFailure, Turn
from runtime.dialogue.session_settings import ClientTool

_WEATHER = ClientTool("get_weather", "", '{"type": "object", "required": ["city"]}')


async def _reply(text: str, *tools: ClientTool) -> str:
    asked: list[tuple[str, Mapping[str, Json]]] = []

    async def call_tool(name: str, arguments: Mapping[str, Json]) -> Json:
        asked.append((name, arguments))
        if arguments == {"city": "Atlantis"}:
            raise ToolFailure("no such place")
        return {"sky": "blue", "city": arguments["city"]}

    agent: Agent = ClientToolsAgent()
    return "".join([piece async for piece in agent.reply(Turn(text, (), {}, call_tool, client_tools=tools))])


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("What is the weather in Paris?", "Let me look. I was told: sky blue, city Paris."),
        ("the weather in Atlantis", "Let me look. That did not work: no such place."),
        ("good morning", "You said: good morning."),
    ],
)
def test_it_asks_the_client(text: str, answer: str) -> None:
    assert anyio.run(_reply, text, _WEATHER) == answer


def test_without_tools_it_says_the_turn_back() -> None:
    assert anyio.run(_reply, "the weather in Paris") == "You said: the weather in Paris."
