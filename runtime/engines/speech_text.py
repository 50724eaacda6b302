"""Cuts an agent's text into pieces to speak as it streams in, and makes a piece speakable. Pure.

The synthesiser reads numbers, times, units and titles itself ("7:30", "Dr. Smith", "5 %"); what is left to do here is to take
away what a language model writes for the eye.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["SentenceCutter", "speakable"]

LONGEST_PIECE: Final = 300
"""Characters. Beyond it a sentence without an end is cut at its last clause, or else between two words."""
SHORTEST_CLAUSE: Final = 10
"""Characters. A first clause shorter than that ("Yes,") is too little speech to cover the making of the next piece."""

_SPACES: Final = re.compile(r"\s+")
# A possible end: its mark, then closing quotes or brackets, then a space that has arrived.
_END: Final = re.compile(r"(?P<mark>[.!?…]+|[,;:—–])[\"”’')\]]*(?= )|(?=\n)")
_NEVER_LAST: Final = re.compile(
    r"mr|mrs|ms|dr|prof|st|mt|ft|gen|gov|sen|rep|capt|lt|col|sgt|rev|hon|pres|vs|e\.g|i\.e|approx|fig|vol|cf"
    r"|(?-i:(?!I$)[A-Z](?:\.[A-Z])*)",  # initials
    re.IGNORECASE,
)
"""Words whose full stop never ends a sentence, because they stand before another word."""
_MAY_BE_LAST: Final = re.compile(r"[ap]\.?m|etc|inc|ltd|co|corp|jr|sr|ave|rd|u\.s|u\.k", re.IGNORECASE)
"""Words whose full stop ends a sentence only if the next word has a capital."""
_WORD_BEFORE: Final = re.compile(r"[^\s(\"“‘'\[]*$")
_LIST_NUMBER: Final = re.compile(r"\d{1,3}")

_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_MARKUP: Final = re.compile(r"[*_`~#|<>\\]+")
_UNSPEAKABLE: Final = re.compile(r"[^\w\s.,;:!?…'’\"“”()%$£€¥°+=/&@\-–—½¼¾]")


def speakable(text: str) -> str:
    """The text without markup, emoji and control characters, "&" read as "and", white space single. May be empty.

    >>> speakable("**Fish & chips** at 7:30 🙂")
    'Fish and chips at 7:30'
    """
    text = _LINK.sub(r"\1", text)
    text = _MARKUP.sub(" ", text).replace("&", " and ")
    return _SPACES.sub(" ", _UNSPEAKABLE.sub(" ", text)).strip()


class SentenceCutter:
    """Feed it text as it comes; it gives back whole sentences, and at first a clause, so that speech starts early.

    A piece comes as soon as the space after its end has arrived; only where the next word decides (after "5 p.m.") it waits for
    that. How the text is chopped into deltas makes no difference. The pieces hold all words in order, white space trimmed and
    single, none longer than `LONGEST_PIECE`. After `flush` the cutter is as new.
    """

    __slots__ = ("_is_first", "_text")

    def __init__(self, text: str = "", is_first: bool = True) -> None:
        self._text = text
        self._is_first = is_first

    @property
    def state(self) -> tuple[str, bool]:
        """What `SentenceCutter(*state)` goes on from: text that is no piece yet, and whether the next one is the first."""
        return self._text, self._is_first

    def feed(self, delta: str) -> list[str]:
        """The pieces that this delta completes, often none."""
        self._text = _single_spaced(self._text + delta)
        pieces = []
        while (end := self._next_end()) is not None:
            piece, self._text = self._text[:end].strip(), self._text[end:].lstrip()
            if piece:
                pieces.append(piece)
                self._is_first = False
        return pieces

    def flush(self) -> list[str]:
        """What is left, as if the text ended here: at the end of a reply, or where a pause is known (a tool runs)."""
        pieces = self.feed("\n")
        self._text = ""
        self._is_first = True
        return pieces

    def _next_end(self) -> int | None:
        """Where the next piece ends, None where that cannot be known yet. Decides on what any longer text would still hold."""
        last_clause = 0
        for match in _END.finditer(self._text):
            if match.end() > LONGEST_PIECE:
                break
            mark = match["mark"]
            if mark is None:  # a line's end
                return match.end() + 1
            if mark in ",;:—–":
                last_clause = match.end()
                if self._is_first and match.end() >= SHORTEST_CLAUSE:
                    return match.end()
                continue
            if not mark.endswith("."):
                return match.end()
            ends = _full_stop_ends_sentence(self._text[: match.start()], self._text[match.end() :].lstrip(" "))
            if ends is None:
                return None
            if ends:
                return match.end()
        if len(self._text.rstrip()) <= LONGEST_PIECE:
            return None
        if last_clause:
            return last_clause
        last_space = self._text.rfind(" ", 0, LONGEST_PIECE + 1)
        return last_space if last_space > 0 else LONGEST_PIECE


def _single_spaced(text: str) -> str:
    """Every run of white space as one space, or as one line's end if it holds one."""
    return _SPACES.sub(lambda run: "\n" if "\n" in run[0] else " ", text).lstrip()


def _full_stop_ends_sentence(before: str, after: str) -> bool | None:
    """Whether a full stop with `before` and `after` around it ends a sentence; None where `after` must grow first."""
    found = _WORD_BEFORE.search(before)
    word = found[0] if found else ""
    if _MAY_BE_LAST.fullmatch(word):
        return after[0].isupper() or after[0] == "\n" if after else None
    if _NEVER_LAST.fullmatch(word):
        return False
    return not (_LIST_NUMBER.fullmatch(word) and word == before)
