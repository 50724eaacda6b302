"""Word error rate and containment, after the stated normalisation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf.demo.scoring import WordErrors, contains_words, normalized_words, word_error_rate, word_errors


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["Hello, World!", "hello world", " HELLO -- world "], "hello world"),
        (["it’s don't", "It's Don’t"], "its dont"),
        (["ill-disposed", "ill disposed", "ill–disposed"], "ill disposed"),
        (["7:30", "730", "seven thirty", "seven hundred and thirty", "seven hundred thirty"], "7 3 0"),
        (["7:05", "seven oh five", "seven o five", "705"], "7 0 5"),
        (["7:00", "seven o'clock", "7 o’clock", "seven"], "7"),
        (["55", "fifty-five", "fifty five", "five five", "5, 5", "5-5"], "5 5"),
        (["2026", "twenty twenty-six", "two thousand and twenty six", "2,026"], "2 0 2 6"),
        (["12,345", "twelve thousand three hundred forty-five"], "1 2 3 4 5"),
        (["a hundred and one", "one hundred one", "101"], "1 0 1"),
        (["5 million two hundred thousand one", "5200001"], "5 2 0 0 0 0 1"),
        (["1st", "first"], "1"),
        (["the twenty-first of May", "the 21st of May"], "the 2 1 of may"),
        (["3.5 p.m.", "three point five PM"], "3 point 5 pm"),
        (["7pm", "seven p.m.", "7 P.M."], "7 pm"),
        (["100%", "one hundred per cent", "100 percent"], "1 0 0 percent"),
        (["Fish & chips", "fish and chips"], "fish and chips"),
        (["Mr. and Mrs. Smith, Dr. Wu", "mister and missus smith doctor wu"], "mister and missus smith doctor wu"),
        (["five. Twenty, six"], "5 2 0 6"),
        (["no hundred oh thousand a man"], "no hundred oh thousand a man"),
        (["007", "0 0 7"], "0 0 7"),
        (["ten thousand 2026"], "1 0 0 0 0 2 0 2 6"),
        (["colour color"], "colour color"),
        (["", " ...!? _ ", "🙂"], ""),
    ],
)
def test_normalisation(texts: list[str], words: str) -> None:
    for text in texts:
        assert " ".join(normalized_words(text)) == words, text


def test_a_very_long_number_is_only_digits() -> None:
    assert len(normalized_words("9" * 5000 + " thousand " + "8" * 5000)) == 10_001


@pytest.mark.parametrize(
    ("reference", "heard", "edits", "words"),
    [
        ("", "", 0, 0),
        ("ten of clubs", "10 of clubs.", 0, 4),
        ("a b c", "a c", 1, 3),
        ("a b c", "a x c", 1, 3),
        ("a b c", "a b b c", 1, 3),
        ("a b c", "", 3, 3),
        ("", "so what", 2, 0),
        ("a b c d", "b c d a", 2, 4),
        ("kitten sat on it", "sitting sat it", 2, 4),
    ],
)
def test_edits(reference: str, heard: str, edits: int, words: int) -> None:
    assert word_errors(reference, heard) == WordErrors(edits, words)


def test_the_pooled_rate_weighs_words() -> None:
    assert word_error_rate([("a", "x"), ("b c d e f g h i j", "b c d e f g h i j")]) == pytest.approx(0.1)
    with pytest.raises(ValueError, match="no reference words"):
        word_error_rate([("", "x")])


@pytest.mark.parametrize(
    ("reply", "said", "expected"),
    [
        ("I have taken your message: ten of clubs. Is there anything else?", "Ten of clubs.", True),
        ("You asked: when are you open at 7:30? Always.", "When are you open at seven thirty?", True),
        ("I heard ten clubs", "ten of clubs", False),
        ("clubs of ten", "ten of clubs", False),
        ("anything", "", True),
        ("", "x", False),
    ],
)
def test_containment(reply: str, said: str, expected: bool) -> None:
    assert contains_words(reply, said) is expected


_WORDS = st.lists(st.sampled_from(["a", "b", "of", "seven", "thirty", "7", "hundred", "and"]), max_size=8).map(" ".join)


@given(_WORDS, _WORDS)
def test_the_distance_is_a_distance(one: str, other: str) -> None:
    there, back = word_errors(one, other), word_errors(other, one)
    assert there.edits == back.edits
    assert (there.edits == 0) == (normalized_words(one) == normalized_words(other))
    longest = max(there.reference_words, back.reference_words)
    assert abs(there.reference_words - back.reference_words) <= there.edits <= longest


@given(st.text(max_size=40))
def test_any_text_can_be_normalised_and_normal_text_stays(text: str) -> None:
    words = normalized_words(text)
    assert all(word == word.lower() and word for word in words)
    assert contains_words(text, text)
