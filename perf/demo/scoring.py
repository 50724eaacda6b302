"""How well words came through: word error rate, and whether a reply holds what was said. Pure.

Both compare words after one normalisation, so that "7:30" and "seven thirty" are the same words. It is stated here in full:

- case, punctuation and typographic variants (Unicode NFKC) do not count; hyphens split words; apostrophes are dropped
  ("don't" is one word);
- a number, however written, becomes its digits, one word a digit: 55, "fifty-five" and "five five" are "5 5"; 730, 7:30,
  "seven thirty" and "seven hundred and thirty" are "7 3 0"; "oh" between numbers is 0; ordinals count as their number
  ("3rd", "third"); 1,000 is 1000; 3.5 is "3 point 5";
- full hours lose ":00" and "o'clock"; "a.m." is "am"; "%" and "per cent" are "percent"; "&" is "and";
- Mr, Mrs and Dr are "mister", "missus" and "doctor".

British and American spellings stay different words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["WordErrors", "contains_words", "normalized_words", "word_error_rate", "word_errors"]

_REWRITES: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"[’‘`]", "'"),
        (r"(?<=\d),(?=\d{3}(?!\d))", ""),
        (r"%|\bper cent\b", " percent "),
        (r"&", " and "),
        (r"\b(\d{1,2}):00\b", r"\1"),
        (r"\b(\d{1,2}):(\d\d)\b", r"\1 \2"),
        (r"\bo'clock\b", " "),
        (r"\b([ap])\.\s?m\b", r"\1m"),
        (r"(?<=\d)\.(?=\d)", " point "),
        (r"(?<=\d)(?:st|nd|rd|th)\b", " "),
        (r"\bmr\b", "mister"),
        (r"\bmrs\b", "missus"),
        (r"\bdr\b", "doctor"),
        (r"(?<=\w)'(?=\w)", ""),
    )
)
_TOKEN: Final = re.compile(r"\d+|[^\W\d_]+|[^\w\s\-‐‑–—]|_")

_BELOW_TWENTY: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen"
)
_ORDINALS: Final = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth"
)
_TENS_FROM_TWENTY: Final = "twenty thirty forty fifty sixty seventy eighty ninety"
_TENS: Final = {word: 10 * n for n, word in enumerate(_TENS_FROM_TWENTY.split(), 2)}
_ORDINAL_TENS: Final = {word[:-1] + "ieth": value for word, value in _TENS.items()}
_SMALL: Final = {word: n for words in (_BELOW_TWENTY, _ORDINALS) for n, word in enumerate(words.split())}
_SCALES: Final = {"thousand": 1_000, "million": 1_000_000}
_MULTIPLIERS: Final = frozenset({"hundred", *_SCALES})
_LONGEST_FACTOR: Final = 9
"""Digits in front of a multiplier that are still read as a number."""


@dataclass(frozen=True, slots=True)
class WordErrors:
    """Edits between two texts; adds up over calls, so that a pooled rate weighs words, not calls."""

    edits: int
    """Substitutions, insertions and deletions, the least that turn one text into the other."""
    reference_words: int

    def __add__(self, other: WordErrors) -> WordErrors:
        return WordErrors(self.edits + other.edits, self.reference_words + other.reference_words)

    @property
    def rate(self) -> float:
        """Edits per reference word, 0 and up (insertions can lift it above 1). Raises ValueError without reference words."""
        if not self.reference_words:
            raise ValueError("no reference words; a word error rate needs some")
        return self.edits / self.reference_words


def word_errors(reference: str, heard: str) -> WordErrors:
    """Levenshtein distance between the normalised words. Costs the product of the lengths."""
    expected, got = normalized_words(reference), normalized_words(heard)
    row = list(range(len(got) + 1))
    for i, word in enumerate(expected, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(got, 1):
            diagonal, row[j] = row[j], min(diagonal + (word != other), row[j] + 1, row[j - 1] + 1)
    return WordErrors(row[-1], len(expected))


def word_error_rate(pairs: Iterable[tuple[str, str]]) -> float:
    """Pooled over (reference, heard) pairs: all edits over all reference words.

    >>> word_error_rate([("ten of clubs", "10 of clubs."), ("at seven", "at eleven")])  # 1 0 of clubs; at 7 - at 1 1
    0.3333333333333333
    """
    total = sum((word_errors(reference, heard) for reference, heard in pairs), WordErrors(0, 0))
    return total.rate


def contains_words(reply: str, said: str) -> bool:
    """Whether the normalised words of `said` stand in `reply`, all, in order and with nothing between them.

    >>> contains_words("You asked: When are you open at 7:30? Always.", "when are you open at seven thirty")
    True
    """
    words, wanted = normalized_words(reply), normalized_words(said)
    return any(words[start : start + len(wanted)] == wanted for start in range(len(words) - len(wanted) + 1))


def normalized_words(text: str) -> tuple[str, ...]:
    """The words of `text` as the module's docstring says."""
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    tokens = _TOKEN.findall(text)
    words: list[str] = []
    at = 0
    while at < len(tokens):
        number, after = _read_number(tokens, at)
        if number:
            words += number
            at = after
        else:
            if tokens[at].isalpha():
                words.append(tokens[at])
            at += 1
    return tuple(words)


def _read_number(tokens: Sequence[str], at: int) -> tuple[list[str], int]:
    """The digits of the number that starts at `at` and where it ends; nothing where none starts. Never crosses punctuation."""
    if _is_oh(tokens, at):
        return ["0"], at + 1
    if tokens[at].isdecimal() and (_token(tokens, at + 1) not in _MULTIPLIERS or len(tokens[at]) > _LONGEST_FACTOR):
        return [str(int(digit)) for digit in tokens[at]], at + 1
    total, after = 0, at
    found = False
    while True:
        value, end = _below_scale(tokens, after, may_be_article=not found)
        if end == after:
            break
        found = True
        scale = _SCALES.get(_token(tokens, end))
        if scale is None or (total and scale >= _lowest_scale(total)):
            total += value
            after = end
            break
        total += value * scale
        after = end + 1
        following = after + (_token(tokens, after) == "and")
        if not _continues(tokens, following, scale):
            break
        after = following
    return (list(str(total)), after) if found else ([], at)


def _lowest_scale(total: int) -> int:
    return 1_000_000 if total % 1_000_000 == 0 else 1_000 if total % 1_000 == 0 else 1


def _continues(tokens: Sequence[str], at: int, scale: int) -> bool:
    """Whether a number after "thousand" or "million" belongs to the same number: "two thousand five", not "two thousand 2026"."""
    value, end = _below_scale(tokens, at, may_be_article=False)
    return end > at and value < scale


def _below_scale(tokens: Sequence[str], at: int, *, may_be_article: bool) -> tuple[int, int]:
    """A number without "thousand", and where it ends (`at` where there is none)."""
    if may_be_article and _token(tokens, at) == "a" and _token(tokens, at + 1) in _MULTIPLIERS:
        value, end = 1, at + 1
    else:
        value, end = _below_hundred(tokens, at)
    if end == at or _token(tokens, end) != "hundred":
        return value, end
    value, end = value * 100, end + 1
    following = end + (_token(tokens, end) == "and")
    rest, after = _below_hundred(tokens, following)
    return (value + rest, after) if after > following and 0 < rest < 100 else (value, end)


def _below_hundred(tokens: Sequence[str], at: int) -> tuple[int, int]:
    """A number word or two ("twenty seven"), or a number written in digits, and where it ends."""
    word = _token(tokens, at)
    if word in _TENS:
        unit = _SMALL.get(_token(tokens, at + 1), 0)
        return (_TENS[word] + unit, at + 2) if 1 <= unit <= 9 else (_TENS[word], at + 1)
    if word in _ORDINAL_TENS:
        return _ORDINAL_TENS[word], at + 1
    if word in _SMALL:
        return _SMALL[word], at + 1
    if word.isdecimal() and len(word) <= _LONGEST_FACTOR:
        return int(word), at + 1
    return 0, at


def _is_oh(tokens: Sequence[str], at: int) -> bool:
    return tokens[at] in ("oh", "o") and at > 0 and _is_numeric(_token(tokens, at - 1)) and _is_numeric(_token(tokens, at + 1))


def _is_numeric(word: str) -> bool:
    return word.isdecimal() or word in _SMALL or word in _TENS or word in _ORDINAL_TENS


def _token(tokens: Sequence[str], at: int) -> str:
    return tokens[at] if at < len(tokens) else ""
