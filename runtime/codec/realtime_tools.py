"""The tools that a client declares in the OpenAI Realtime protocol: functions that the client itself runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from runtime.codec.realtime_values import InvalidSession
from runtime.dialogue.session_settings import ClientTool

__all__ = ["shown_tools", "tools_from"]

_MOST_TOOLS: Final = 128
_LONGEST_BYTES: Final = 128 * 1024
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def tools_from(wanted: object, path: str) -> tuple[ClientTool, ...]:
    """Raises InvalidSession, which names the tool by its position."""
    if not isinstance(wanted, list) or len(wanted) > _MOST_TOOLS:
        raise InvalidSession(path, type(wanted).__name__, f"a list of at most {_MOST_TOOLS} tools")
    tools: dict[str, ClientTool] = {}
    for position, each in enumerate(wanted):
        tool = _tool(each, f"{path}[{position}]")
        if tool.name in tools:
            raise InvalidSession(f"{path}[{position}].name", tool.name, "a name that no other tool has")
        tools[tool.name] = tool
    size = sum(len(tool.description) + len(tool.parameters_json) for tool in tools.values())
    if size > _LONGEST_BYTES:
        raise InvalidSession(path, f"{size} characters long", f"at most {_LONGEST_BYTES} characters of descriptions and schemas")
    return tuple(tools.values())


def _tool(wanted: object, path: str) -> ClientTool:
    if not isinstance(wanted, Mapping):
        raise InvalidSession(path, wanted, "an object")
    if wanted.get("type") != "function":
        raise InvalidSession(f"{path}.type", wanted.get("type"), "function")
    name, description, parameters = wanted.get("name"), wanted.get("description"), wanted.get("parameters")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidSession(f"{path}.name", name, "1 to 64 characters of A-Z a-z 0-9 _ -")
    if description is not None and not isinstance(description, str):
        raise InvalidSession(f"{path}.description", type(description).__name__, "text")
    if parameters is not None and not isinstance(parameters, Mapping):
        raise InvalidSession(f"{path}.parameters", type(parameters).__name__, "a JSON schema object")
    return ClientTool(name, description or "", json.dumps(parameters or {}))


def shown_tools(tools: Sequence[ClientTool]) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": json.loads(tool.parameters_json),
        }
        for tool in tools
    ]
