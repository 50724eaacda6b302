"""What was heard, and the bounded history."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.dialogue.agent import Role, Said
from runtime.dialogue.context import Context, heard_part


@pytest.mark.parametrize(
    ("heard_ms", "expected"),
    [(0, ""), (-5, ""), (100, ""), (250, "one"), (500, "one two"), (1000, "one two three four"), (2000, "one two three four")],
)
def test_heard_part_is_whole_words(heard_ms: int, expected: str) -> None:
    assert heard_part("one two three four", heard_ms, 1000) == expected


@given(st.text(max_size=200), st.integers(-10, 3000), st.integers(0, 2000))
def test_heard_part_is_a_beginning(text: str, heard_ms: int, audio_ms: int) -> None:
    assert text.startswith(heard_part(text, heard_ms, audio_ms))


def test_correcting_touches_that_reply_alone_and_marks_it_as_cut_off() -> None:
    context = Context()
    context.caller_said("hello")
    context.agent_said("good morning", is_complete=True, item_id="first")
    context.correct_agent("first", "good morning")
    assert context.history[-1] == Said(Role.AGENT, "good morning", item_id="first")
    context.add(Role.AGENT, "of the client's own", "mine")
    context.correct_agent("first", "good")  # it had been sent whole, and was stopped while it still played
    assert context.history[1] == Said(Role.AGENT, "good", is_complete=False, item_id="first")
    assert context.history[2].text == "of the client's own"
    context.correct_agent("nobody's", "")
    context.correct_agent("", "")
    assert [said.text for said in context.history] == ["hello", "good", "of the client's own"]


def test_a_reply_stands_where_it_began() -> None:
    context = Context()
    context.caller_said("hello", "a")
    began = context.newest
    context.caller_said("and another thing", "b")
    assert [said.text for said in context.up_to(began)] == ["hello"]
    context.agent_said("good morning", is_complete=True, behind=began)
    assert [said.text for said in context.history] == ["hello", "good morning", "and another thing"]
    context.forget("a")
    context.agent_said("last", is_complete=True)
    assert [said.text for said in context.history] == ["good morning", "and another thing", "last"]


def test_what_was_corrected_makes_room() -> None:
    context = Context()
    context.agent_said("x" * 60_000, is_complete=True, item_id="long")
    context.correct_agent("long", "x")
    context.caller_said("y" * 60_000)
    assert len(context.history) == 2


def test_the_oldest_go_first_when_it_is_full() -> None:
    context = Context()
    for number in range(20):
        context.caller_said(f"{number:02d}" + "x" * 10_000)
    assert sum(len(said.text) for said in context.history) <= 64 * 1024
    assert context.history[-1].text.startswith("19")


def test_entries_without_words_do_not_pile_up() -> None:
    context = Context()
    for number in range(5_000):
        context.caller_said("", str(number))
    assert len(context.history) == 1024
    assert context.history[-1].item_id == "4999"
