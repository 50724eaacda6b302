"""Cutting streamed text into pieces to speak, and making a piece speakable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.engines.speech_text import LONGEST_PIECE, SentenceCutter, speakable


def cut(text: str, step: int = 1) -> list[str]:
    cutter, pieces = SentenceCutter(), []
    for start in range(0, len(text), step):
        pieces += cutter.feed(text[start : start + step])
    return pieces + cutter.flush()


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        ("  \n ", []),
        ("Hello", ["Hello"]),
        ("Hello there. How are you?", ["Hello there.", "How are you?"]),
        ("I have taken your message: call me, please. Bye.", ["I have taken your message:", "call me, please.", "Bye."]),
        ("Yes, we are open. Until ten, usually.", ["Yes, we are open.", "Until ten, usually."]),
        ("Come at 7:30 or 3.5 hours later, please.", ["Come at 7:30 or 3.5 hours later,", "please."]),
        ("It costs 1,250 dollars.", ["It costs 1,250 dollars."]),
        ("Mr. Smith called. Dr. J. K. Wu too.", ["Mr. Smith called.", "Dr. J. K. Wu too."]),
        ("So do I. Then go.", ["So do I.", "Then go."]),
        ("We close at 5 p.m. on Saturday. Fine?", ["We close at 5 p.m. on Saturday.", "Fine?"]),
        ("We close at 5 p.m. See you.", ["We close at 5 p.m.", "See you."]),
        ("Really?! Yes… No.", ["Really?!", "Yes…", "No."]),
        ('He said "stop." Then he left.', ['He said "stop."', "Then he left."]),
        ("1. Call us. 2. Wait.", ["1. Call us.", "2. Wait."]),
        ("One\nTwo\n\nThree", ["One", "Two", "Three"]),
        ("See example.com for more. Bye.", ["See example.com for more.", "Bye."]),
    ],
)
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_pieces(text: str, pieces: list[str], step: int) -> None:
    assert cut(text, step) == pieces


def test_a_piece_comes_as_soon_as_the_space_after_it() -> None:
    cutter = SentenceCutter()
    assert cutter.feed("One moment.") == []
    assert cutter.feed(" ") == ["One moment."]
    assert cutter.feed("At 5 p.m. ") == []
    assert cutter.feed("N") == ["At 5 p.m."]
    assert cutter.feed("ow, what is your name") == []
    assert cutter.flush() == ["Now, what is your name"]
    assert cutter.feed("Of course, then") == ["Of course,"]


def test_a_long_sentence_is_cut_at_its_last_clause_or_between_words() -> None:
    words = "and so on " * 40
    pieces = cut("Well then, " + "a" * 200 + ", " + words)
    assert pieces[:2] == ["Well then,", "a" * 200 + ","]
    assert all(piece.endswith(("and", "so", "on")) for piece in pieces[2:])
    assert max(map(len, pieces)) <= LONGEST_PIECE
    assert [len(piece) for piece in cut("x" * 700)] == [300, 300, 100]


def test_a_line_that_ends_at_the_longest_piece_is_not_cut_before_its_end() -> None:
    """The line's end may arrive after a space in front of it; until then that space could be one between two words."""
    line = "abcdefgh no" + "x" * 250 + ", " + "y" * 37
    assert len(line) == LONGEST_PIECE
    cutter = SentenceCutter()
    assert cutter.feed("Well then, I say. ") + cutter.feed(line + " ") == ["Well then,", "I say."]
    assert cutter.feed("\nNext") == [line]


_TEXT = st.text(st.sampled_from('aB7.,:!? \n…"I)—') | st.characters(), max_size=60) | st.text(
    "ab. ,p\n", min_size=290, max_size=700
)


@given(text=_TEXT, cuts=st.lists(st.integers(0, 700), max_size=8))
def test_how_the_text_is_chopped_makes_no_difference_and_no_word_is_lost(text: str, cuts: list[int]) -> None:
    whole = cut(text, max(1, len(text)))
    cutter, pieces = SentenceCutter(), []
    ends = [*sorted(end for end in cuts if end < len(text)), len(text)]
    for start, end in zip([0, *ends], ends, strict=False):
        pieces += cutter.feed(text[start:end])
    assert pieces + cutter.flush() == whole
    assert "".join("".join(whole).split()) == "".join(text.split())
    assert all(0 < len(piece) <= LONGEST_PIECE for piece in whole)


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Fish & chips at 7:30, 55% off.", "Fish and chips at 7:30, 55% off."),
        ("**Bold** and `code` _here_", "Bold and code here"),
        ("# Heading", "Heading"),
        ("See [our page](https://example.com/a).", "See our page."),
        ("Great 🎉👍 news\x00\x1b[0m", "Great news 0m"),
        ("don't — it’s Ann’s", "don't — it’s Ann’s"),
        ("café at 20 °C", "café at 20 °C"),
        ("🙂", ""),
    ],
)
def test_speakable(text: str, spoken: str) -> None:
    assert speakable(text) == spoken
