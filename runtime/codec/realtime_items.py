"""Items that a client creates in the OpenAI Realtime protocol, turned into caller events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from runtime.codec.realtime_memory import KeepItem, RealtimeMemory
from runtime.dialogue.agent import Role
from runtime.dialogue.caller_events import CallerEvent, Echo, Invalid, SayText

__all__ = ["LONGEST_TEXT", "created_item"]

LONGEST_TEXT: Final = 16 * 1024
_ROLES: Final = {"user": Role.CALLER, "system": Role.SYSTEM, "assistant": Role.AGENT}
_TEXT_PARTS: Final = {
    Role.CALLER: ("input_text",),
    Role.SYSTEM: ("input_text",),
    Role.AGENT: ("output_text", "text"),
}
_LONGEST_ID: Final = 64
_LONGEST_CALL_ID: Final = 256


def created_item(event: Mapping[str, Any], event_id: str, memory: RealtimeMemory) -> Sequence[CallerEvent]:
    """What a `conversation.item.create` asks for. A broken one is one `Invalid`."""
    item = event.get("item")
    if not isinstance(item, Mapping):
        return [Invalid("invalid_value", "item is missing; expected an object", event_id, "item")]
    item_id = item.get("id") or ""
    if not isinstance(item_id, str) or len(item_id) > _LONGEST_ID:
        return [Invalid("invalid_value", f"item.id; allowed: at most {_LONGEST_ID} characters", event_id, "item.id")]
    if item_id and memory.has(item_id):
        return [Invalid("item_create_duplicate_item_id", f"item {item_id!r} exists", event_id, "item.id")]
    created: CallerEvent | None = None
    match item.get("type"):
        case "message":
            created = _message(item, item_id, event_id)
        case "function_call_output":
            created = _output(item, item_id, event_id, memory)
        case "function_call":
            created = _call(item, item_id, event_id, memory)
    if created is not None:
        if item_id and not isinstance(created, Invalid):
            memory.expect(item_id)
        return [created]
    allowed = "message, function_call_output, function_call"
    return [Invalid("invalid_value", f"item.type is {item.get('type')!s:.32}; allowed: {allowed}", event_id, "item.type")]


def _message(item: Mapping[str, Any], item_id: str, event_id: str) -> CallerEvent:
    role = _ROLES.get(str(item.get("role")))
    if role is None:
        allowed = ", ".join(_ROLES)
        return Invalid("invalid_value", f"item.role is {item.get('role')!s:.32}; allowed: {allowed}", event_id, "item.role")
    kinds = _TEXT_PARTS[role]
    parts = item.get("content")
    texts: list[str] = []
    for position, part in enumerate(parts if isinstance(parts, list) else []):
        text = part.get("text") if isinstance(part, Mapping) and part.get("type") in kinds else None
        if not isinstance(text, str):
            where = f"item.content[{position}]"
            kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
            return Invalid("invalid_value", f"{where} is a {kind!s:.32}; allowed: {kinds[0]} with text", event_id, where)
        texts.append(text)
    text = " ".join(texts).strip()
    if not text or len(text) > LONGEST_TEXT:
        allowed = f"{kinds[0]} parts with 1 to {LONGEST_TEXT} characters in all"
        return Invalid("invalid_value", f"item.content; allowed: {allowed}", event_id, "item.content")
    return SayText(text, item_id, role)


def _output(item: Mapping[str, Any], item_id: str, event_id: str, memory: RealtimeMemory) -> CallerEvent:
    """Kept until the client asks for a response: only then does the reply that waits go on."""
    call_id, output = item.get("call_id"), item.get("output")
    if not isinstance(call_id, str) or not memory.knows_call(call_id):
        return Invalid(
            "invalid_tool_call_id", f"item.call_id is {call_id!s:.64}; no such call was made", event_id, "item.call_id"
        )
    if not isinstance(output, str) or len(output) > LONGEST_TEXT:
        allowed = f"text of at most {LONGEST_TEXT} characters"
        return Invalid("invalid_value", f"item.output; allowed: {allowed}", event_id, "item.output")
    if call_id in memory.open_calls:
        memory.outputs[call_id] = output
    kept = {"id": item_id or f"item_{call_id}_output", "object": "realtime.item", "type": "function_call_output"}
    return Echo(KeepItem({**kept, "status": "completed", "call_id": call_id, "output": output}))


def _call(item: Mapping[str, Any], item_id: str, event_id: str, memory: RealtimeMemory) -> CallerEvent:
    """A call of an earlier session, told for the record."""
    call_id, name, arguments = item.get("call_id"), item.get("name"), item.get("arguments")
    for field, value, longest in (
        ("call_id", call_id, _LONGEST_CALL_ID),
        ("name", name, _LONGEST_CALL_ID),
        ("arguments", arguments, LONGEST_TEXT),
    ):
        if not isinstance(value, str) or len(value) > longest:
            where = f"item.{field}"
            return Invalid("invalid_value", f"{where}; allowed: text of at most {longest} characters", event_id, where)
    assert isinstance(call_id, str)
    memory.call_known(call_id)
    kept = {"id": item_id or f"item_{call_id[:_LONGEST_ID]}", "object": "realtime.item", "type": "function_call"}
    return Echo(KeepItem({**kept, "status": "completed", "call_id": call_id, "name": name, "arguments": arguments}))
