"""What the words of a pause say: whether a sentence is left open, and whether they are only a listener's noise. English. Pure."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_backchannel", "is_left_open"]

_WORD: Final = re.compile(r"[a-z]+(?:'[a-z]+)?")
_OPEN_TEXT: Final = (
    "a an and as at because but by for from his her if in into is its like my of on or our so than that the their then to um "
    "uh until was were when where which while who whose with would your"
)
_OPEN: Final = frozenset(_OPEN_TEXT.split())
"""Words that hardly ever end an utterance."""
_OPEN_MARKS: Final = (",", "-", "–", "—", "...", "…", ":")
_BACKCHANNEL_TEXT: Final = (
    "ah aha alright cool good great hm hmm hum huh i it got mhm mm mmhmm mmm oh ok okay really right see sure uh um wow yeah "
    "yep yup"
)
_BACKCHANNEL: Final = frozenset(_BACKCHANNEL_TEXT.split())
_MOST_WORDS: Final = 3


def is_left_open(text: str) -> bool:
    """Whether the text ends as no complete utterance does: in a comma or dash, or in a word that wants another.

    >>> is_left_open("I would like a table for"), is_left_open("On Friday,"), is_left_open("On Friday.")
    (True, True, False)
    """
    bare = text.rstrip()
    if bare.endswith(_OPEN_MARKS):
        return True
    words = _WORD.findall(bare.lower())
    return bool(words) and words[-1] in _OPEN


def is_backchannel(text: str) -> bool:
    """Whether somebody who says this only shows that they listen; true of no words at all.

    "Yes" and "no" are none: they may answer what the agent is about to ask.

    >>> is_backchannel("Uh-huh."), is_backchannel("Okay, I see."), is_backchannel("No, wait."), is_backchannel("")
    (True, True, False, True)
    """
    words = _WORD.findall(text.lower())
    return len(words) <= _MOST_WORDS and all(word in _BACKCHANNEL for word in words)
