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


def test_correcting_touches_only_the_newest_reply_and_marks_it_as_cut_off() -> None:
    context = Context()
    context.caller_said("hello")
    context.agent_said("good morning", is_complete=True)
    context.correct_agent("good morning")
    assert context.history[-1] == Said(Role.AGENT, "good morning")
    context.correct_agent("good")  # it had been sent whole, and was stopped while it still played
    assert context.history[-1] == Said(Role.AGENT, "good", is_complete=False)
    context.agent_said("what can I do", is_complete=False)
    context.correct_agent("what")
    assert context.history[-1] == Said(Role.AGENT, "what", is_complete=False)


def test_the_oldest_go_first_when_it_is_full() -> None:
    context = Context()
    for number in range(20):
        context.caller_said(f"{number:02d}" + "x" * 10_000)
    assert sum(len(said.text) for said in context.history) <= 64 * 1024
    assert context.history[-1].text.startswith("19")
