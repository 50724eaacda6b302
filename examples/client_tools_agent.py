"""An agent that lets the client do the work: it answers with the tools that the client declared for its session.

    python -m runtime --agent examples.client_tools_agent:ClientToolsAgent

A tool is chosen where a word of its name was said ("weather" for `get_weather`); its first required argument is what was said
behind "in". A language model would choose better; what happens around the call is the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

from runtime.dialogue.agent import Json, ToolFailure, Turn
from runtime.dialogue.session_settings import ClientTool

_STORY = "Once there was a switchboard with a hundred lines, and at each line there sat somebody who waited for an answer. "


class ClientToolsAgent:
    """It has no tools of its own."""

    name = "client-tools"
    tools = ()

    async def reply(self, turn: Turn) -> AsyncIterator[str]:
        tool = _wanted(turn)
        if tool is not None:
            yield "Let me look. "
            try:
                found = await turn.call_tool(tool.name, _arguments(tool, turn.text))
            except ToolFailure as failure:
                yield f"That did not work: {failure}."
            else:
                yield f"I was told: {_spoken(found)}."
        elif "story" in turn.text.lower():
            for _ in range(8):
                yield _STORY
        else:
            yield f"You said: {turn.text.rstrip('.') or 'nothing that I understood'}."


def _wanted(turn: Turn) -> ClientTool | None:
    said = set(re.findall(r"[a-z]+", turn.text.lower()))
    return next((tool for tool in turn.client_tools if said & set(re.split(r"[_-]", tool.name.lower()))), None)


def _arguments(tool: ClientTool, text: str) -> Mapping[str, Json]:
    schema: Any = json.loads(tool.parameters_json)
    required = schema.get("required") or []
    place = re.search(r"\bin ([A-Za-z ]+)", text)
    return {str(required[0]): place.group(1).strip() if place else text} if required else {}


def _spoken(found: Json) -> str:
    if isinstance(found, dict):
        return ", ".join(f"{name} {value}" for name, value in found.items())
    return str(found)
