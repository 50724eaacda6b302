"""The tools: what they record, what they refuse, and that their descriptions are what an agent needs."""

from __future__ import annotations

import anyio
import pytest

from runtime.dialogue.agent import Json, ToolFailure
from runtime.engines.front_desk.tools import TOOLS

BY_NAME = {tool.name: tool for tool in TOOLS}


def run(tool: str, **arguments: Json) -> Json:
    return anyio.run(BY_NAME[tool].run, arguments, "key")


def test_what_is_recorded_is_known_by_the_idempotency_key() -> None:
    assert run("take_message", text="hello") == {"reference": "key"}
    assert run("book_table", people=2, day="today", time="19:00", name="Al") == {"reference": "key"}


def test_hours() -> None:
    assert run("opening_hours", day="sunday") == {"sunday": {"opens": "10:00", "closes": "16:00"}}
    week = run("opening_hours")
    assert isinstance(week, dict)
    assert len(week) == 7


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("take_message", {}),
        ("take_message", {"text": " "}),
        ("book_table", {"people": 0, "day": "today", "time": "19:00", "name": "Al"}),
        ("book_table", {"people": 13, "day": "today", "time": "19:00", "name": "Al"}),
        ("book_table", {"people": 2, "time": "19:00", "name": "Al"}),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, arguments: dict[str, Json]) -> None:
    with pytest.raises(ToolFailure):
        run(name, **arguments)


def test_all_may_be_tried_again_and_are_described() -> None:
    for tool in TOOLS:
        assert tool.is_idempotent
        assert tool.description
        required = tool.parameters["required"]
        assert isinstance(required, list)
        properties = tool.parameters["properties"]
        assert isinstance(properties, dict)
        assert set(map(str, required)) <= set(properties)
