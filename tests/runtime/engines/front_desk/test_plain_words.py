"""Recognised speech in plain form."""

from __future__ import annotations

import pytest

from runtime.engines.front_desk.plain_words import number_in_words, plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("Hello, World!", "hello , world ,"),
        ("It's seven o'clock", "it 7 oclock"),
        ("7pm; 7 P.M.; 7 p. m.", "7 pm , 7 pm , 7 pm"),
        ("at 7.30 or 7:30", "at 7:30 or 7:30"),
        ("twenty-five, fifty five, twenty, five", "25 , 55 , 20 , 5"),
        ("the twenty-first and the Third", "the 21st and the 3rd"),
        ("Ann’s we’re I'd don't", "ann we i don't"),
        ("11th 12th 13th eleventh", "11th 12th 13th 11th"),
        ("...!?", ""),
    ],
)
def test_plain(text: str, expected: str) -> None:
    assert plain(text) == expected


@pytest.mark.parametrize(
    ("number", "words"), [(0, "zero"), (12, "twelve"), (20, "twenty"), (45, "forty-five"), (59, "fifty-nine")]
)
def test_number_in_words(number: int, words: str) -> None:
    assert number_in_words(number) == words
