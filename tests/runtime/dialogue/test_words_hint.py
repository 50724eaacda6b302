"""What the words of a pause say."""

from __future__ import annotations

import pytest

from runtime.dialogue.words_hint import is_backchannel, silence_factor


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I want a table for", 1.6),
        ("Well, um", 1.6),
        ("My name is", 1.6),
        ("On Friday,", 1.6),
        ("Well, I thought...", 1.6),
        ("On Friday.", 1.0),
        ("On Friday, please.", 0.8),
        ("Is that right?", 0.8),
        ("Who is it for?", 1.6),  # the word decides: it may go on
        ("Yes", 1.0),
        ("", 1.0),
        ("42", 1.0),
    ],
)
def test_the_end_of_a_text_says_how_long_to_wait(text: str, expected: float) -> None:
    assert silence_factor(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("...", True),
        ("Uh-huh.", True),
        ("Yeah, okay.", True),
        ("I see", True),
        ("Right, right, right.", True),
        ("Right, right, right, right.", False),
        ("Stop.", False),
        ("No.", False),
        ("Yes.", False),
        ("Okay, but wait", False),
        ("7:30.", False),  # an answer, as a recogniser writes it
        ("4.", False),
        ("Да.", False),
    ],
)
def test_backchannels(text: str, expected: bool) -> None:
    assert is_backchannel(text) is expected
