"""A turn as the messages and tools of a chat completion. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from runtime.dialogue.agent import Role, Tool, Turn, TurnCause

__all__ = ["END_CALL", "TRANSFER_CALL", "messages_of", "tools_of"]

END_CALL: Final = "end_call"
TRANSFER_CALL: Final = "transfer_call"
_ROLES: Final[Mapping[Role, str]] = {Role.CALLER: "user", Role.AGENT: "assistant", Role.SYSTEM: "system"}
_NOT_UNDERSTOOD: Final = "(The caller said something that could not be understood.)"


def messages_of(turn: Turn, instructions: str) -> list[dict[str, Any]]:
    """System message with what is known of the caller, the history as far as it was heard, and the new turn."""
    system = turn.instructions or instructions
    if turn.metadata:
        facts = "; ".join(f"{name}: {value}" for name, value in sorted(turn.metadata.items()))
        system += f"\nKnown of the caller: {facts}."
    messages = [{"role": "system", "content": system}]
    for said in turn.history:
        cut_off = "" if said.is_complete else " (the caller interrupted you here)"
        messages.append({"role": _ROLES[said.role], "content": said.text + cut_off})
    match turn.cause:
        case TurnCause.SILENCE:
            again = f" for the {turn.silences}. time in a row" if turn.silences > 1 else ""
            messages.append({"role": "user", "content": f"(The caller says nothing{again}.)"})
        case TurnCause.KEYS:
            messages.append({"role": "user", "content": f"(The caller pressed the keys {turn.text}.)"})
        case TurnCause.SPOKEN:
            messages.append({"role": "user", "content": turn.text or _NOT_UNDERSTOOD})
        case TurnCause.TYPED if turn.text:
            messages.append({"role": "user", "content": turn.text})
        case TurnCause.TYPED:
            pass  # the client wants a reply to what is there
    return messages


def tools_of(tools: Sequence[Tool], turn: Turn) -> list[dict[str, Any]]:
    """The agent's, the client's, and two for the call itself.

    A client's tool with the name of another is never reached, and left out: providers refuse a name that comes twice.
    """
    taken = {END_CALL, TRANSFER_CALL, *(tool.name for tool in tools)}
    own = [_function(tool.name, tool.description, dict(tool.parameters)) for tool in tools]
    clients = [
        _function(tool.name, tool.description, json.loads(tool.parameters_json))
        for tool in turn.client_tools
        if tool.name not in taken
    ]
    nothing: dict[str, Any] = {"type": "object", "properties": {}}
    target = {"type": "object", "properties": {"target": {"type": "string"}}, "required": ["target"]}
    return [
        *own,
        *clients,
        _function(END_CALL, "Ends the call after your last words, when the caller has said goodbye.", nothing),
        _function(TRANSFER_CALL, "Hands the call to somebody else after your last words.", target),
    ]


def _function(name: str, description: str, parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
