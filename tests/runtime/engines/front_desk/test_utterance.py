"""Which of the caller's words belong together."""

from __future__ import annotations

import pytest

from runtime.dialogue.agent import Json, Role, Said, Turn
from runtime.engines.front_desk.utterance import utterance_of

HEARD = Said(Role.AGENT, "whole")
CUT = Said(Role.AGENT, "cut", is_complete=False)


def caller(text: str) -> Said:
    return Said(Role.CALLER, text)


async def no_tools(name: str, arguments: object) -> Json:
    raise AssertionError(name)


@pytest.mark.parametrize(
    ("history", "text", "parts"),
    [
        ([], "a", ("a",)),
        ([caller("x"), HEARD], "a", ("a",)),
        ([caller("x"), CUT], "a", ("x", "a")),
        ([caller("w"), HEARD, caller("x"), CUT, caller("y"), CUT], "a", ("x", "y", "a")),
        ([caller("x")], "a", ("x", "a")),
        ([CUT], "a", ("a",)),
        ([caller("x"), CUT], "", ("x",)),
        ([caller("..."), CUT], " a \n b ", ("a b",)),
        ([], "", ()),
    ],
)
def test_parts(history: list[Said], text: str, parts: tuple[str, ...]) -> None:
    utterance = utterance_of(Turn(text, history, {}, no_tools))
    assert utterance.parts == parts
    assert utterance.text == " ".join(parts)
    assert utterance.is_continued == (len(parts) > 1)
