"""What the words of a pause say."""

from __future__ import annotations

import pytest

from runtime.dialogue.words_hint import is_backchannel, is_left_open


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I want a table for", True),
        ("Well, um", True),
        ("My name is", True),
        ("On Friday,", True),
        ("I thought...", True),
        ("On Friday.", False),
        ("Who is it for?", True),  # the word decides: it may go on
        ("Yes", False),
        ("", False),
        ("42", False),
    ],
)
def test_left_open(text: str, expected: bool) -> None:
    assert is_left_open(text) is expected


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
    ],
)
def test_backchannels(text: str, expected: bool) -> None:
    assert is_backchannel(text) is expected
