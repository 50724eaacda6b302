"""What the words of a pause say: whether a sentence is left open, and whether they are only a listener's noise. English. Pure."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_backchannel", "silence_factor"]

_WORD: Final = re.compile(r"[a-z]+(?:'[a-z]+)?")
_ANY_WORD: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
"""Of any script, and what a recogniser writes in digits."""
_OPEN_TEXT: Final = (
    "a an and as at because but by for from his her if in into is its like my of on or our so than that the their then to um "
    "uh until was were when where which while who whose with would your"
)
_OPEN: Final = frozenset(_OPEN_TEXT.split())
"""Words that hardly ever end an utterance."""
_OPEN_MARKS: Final = (",", "-", "–", "—", "...", "…", ":")
_CLOSED_MARKS: Final = (".", "?", "!")
_FEWEST_WORDS: Final = 3
"""A recogniser ends a single word with a full stop too."""
_LEFT_OPEN: Final = 1.6
_SENTENCE: Final = 0.8
_BACKCHANNEL_TEXT: Final = (
    "ah aha alright cool good great hm hmm hum huh i it got mhm mm mmhmm mmm oh ok okay really right see sure uh um wow yeah "
    "yep yup"
)
_BACKCHANNEL: Final = frozenset(_BACKCHANNEL_TEXT.split())
_MOST_WORDS: Final = 3


def silence_factor(text: str) -> float:
    """How much longer or shorter the silence should be that makes this text a turn.

    Longer where it ends as no complete utterance does: in a comma or dash, or in a word that wants another. Shorter where it is
    a whole sentence of some words.

    >>> silence_factor("I would like a table for"), silence_factor("On Friday,"), silence_factor("A table for four, please.")
    (1.6, 1.6, 0.8)
    """
    bare = text.rstrip()
    words = _WORD.findall(bare.lower())
    if bare.endswith(_OPEN_MARKS) or (words and words[-1] in _OPEN):
        return _LEFT_OPEN
    return _SENTENCE if bare.endswith(_CLOSED_MARKS) and len(words) >= _FEWEST_WORDS else 1.0


def is_backchannel(text: str) -> bool:
    """Whether somebody who says this only shows that they listen; true of no words at all.

    "Yes" and "no" are none: they may answer what the agent is about to ask.

    >>> is_backchannel("Uh-huh."), is_backchannel("Okay, I see."), is_backchannel("No, wait."), is_backchannel("")
    (True, True, False, True)
    >>> is_backchannel("7:30."), is_backchannel("Да.")
    (False, False)
    """
    words = _ANY_WORD.findall(text.lower())
    return len(words) <= _MOST_WORDS and all(word in _BACKCHANNEL for word in words)
