"""The example agent does what it says, and it is an agent. Its source is `examples/echo_agent.py`."""

from __future__ import annotations

from collections.abc import Mapping

import anyio

from examples.echo_agent import EchoAgent
from runtime.dialogue.agent import Agent, Json, Turn


def test_it_repeats_counts_and_remembers() -> None:
    agent: Agent = EchoAgent()
    memory: dict[str, Json] = {}

    async def call_tool(name: str, arguments: Mapping[str, Json]) -> Json:
        return await {tool.name: tool for tool in agent.tools}[name].run(arguments, "key")

    async def reply(text: str) -> str:
        return "".join([piece async for piece in agent.reply(Turn(text, (), memory, call_tool))])

    assert anyio.run(reply, "ten of clubs") == "You said: ten of clubs. That was 3 words, and turn number 1."
    assert anyio.run(reply, "").endswith("turn number 2.")
