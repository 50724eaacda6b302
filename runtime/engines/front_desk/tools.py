"""The front desk's tools. They keep no book: the record of a tool's call is the message, the answer or the booking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from runtime.dialogue.agent import Json, Tool, ToolFailure
from runtime.engines.front_desk.booking import MOST_PEOPLE
from runtime.engines.front_desk.opening_hours import WEEK, hours_on

__all__ = ["TOOLS"]

_REPLACES: Final[Json] = {
    "type": "string",
    "description": "reference of the earlier record that this one replaces, because the caller went on speaking",
}


async def _take_message(arguments: Mapping[str, Json], key: str) -> Json:
    _text(arguments, "text")
    return {"reference": key}


async def _opening_hours(arguments: Mapping[str, Json], _key: str) -> Json:
    day = arguments.get("day")
    hours = hours_on(day) if isinstance(day, str) else None
    days = {str(day): hours} if hours else WEEK
    return {name: {"opens": f"{of.opens:02}:00", "closes": f"{of.closes:02}:00"} for name, of in days.items()}


async def _book_table(arguments: Mapping[str, Json], key: str) -> Json:
    people = arguments.get("people")
    if not isinstance(people, int) or not 1 <= people <= MOST_PEOPLE:
        raise ToolFailure(f"people is {people}; allowed: 1 to {MOST_PEOPLE}")
    for name in ("day", "time", "name"):
        _text(arguments, name)
    return {"reference": key}


def _text(arguments: Mapping[str, Json], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ToolFailure(f"{name} is missing")
    return value


def _object(required: list[Json], **properties: Json) -> dict[str, Json]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


TOOLS: Final = (
    Tool(
        name="take_message",
        description="Writes a message down, word for word.",
        parameters=_object(["text"], text={"type": "string"}, replaces=_REPLACES),
        run=_take_message,
        is_idempotent=True,
    ),
    Tool(
        name="opening_hours",
        description="When the restaurant is open, on one day of the week or on all.",
        parameters=_object([], day={"type": "string", "enum": list(WEEK)}),
        run=_opening_hours,
        is_idempotent=True,
    ),
    Tool(
        name="book_table",
        description="Books a table.",
        parameters=_object(
            ["people", "day", "time", "name"],
            people={"type": "integer", "minimum": 1, "maximum": MOST_PEOPLE},
            day={"type": "string", "description": "as the caller said it"},
            time={"type": "string", "description": "HH:MM, 24 hours"},
            name={"type": "string"},
            replaces=_REPLACES,
        ),
        run=_book_table,
        is_idempotent=True,
    ),
)
"""Running one twice with the same key changes nothing, so all are idempotent."""
