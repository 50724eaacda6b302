"""Text in pieces: whole characters come out, whatever the cuts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.dialogue.unicode_text import WholeText, whole

_UNITS = st.text(st.sampled_from("ab\ud83d\ude00\u00e4"), max_size=12)


def test_halves_of_a_character_are_joined_over_pieces() -> None:
    text = WholeText()
    assert [text.feed("Hello \ud83d"), text.feed("\ude00."), text.flush()] == ["Hello ", "\U0001f600.", ""]


def test_half_a_character_that_stays_alone_is_replaced() -> None:
    text = WholeText()
    assert [text.feed("a\ud83d"), text.feed("b\ude00"), text.feed("\ud83d"), text.flush()] == ["a", "\ufffdb\ufffd", "", "\ufffd"]


@given(st.lists(_UNITS, max_size=8))
def test_the_cuts_change_nothing(pieces: list[str]) -> None:
    text = WholeText()
    joined = "".join([*map(text.feed, pieces), text.flush()])
    assert joined == whole("".join(pieces))
    joined.encode()
