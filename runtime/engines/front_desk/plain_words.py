"""Recognised speech in one plain form for the rules to read, and numbers as a person says them. Pure."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["number_in_words", "plain"]

_SMALL: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen"
)
_SMALL_WORDS: Final = tuple(_SMALL.split())
_NUMBERS: Final = {word: n for n, word in enumerate(_SMALL_WORDS)}
_TENS_TEXT: Final = "twenty thirty forty fifty"
_TENS: Final = {word: 10 * n for n, word in enumerate(_TENS_TEXT.split(), 2)}
_ORDINAL_TEXT: Final = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth"
)
_ORDINALS: Final = {word: n for n, word in enumerate(_ORDINAL_TEXT.split(), 1)} | {"thirtieth": 30}

_REWRITES: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"[’‘`]", "'"),
        (r"\b([ap])\.\s?m\b\.?", r"\1m"),
        (r"\bo'clock\b", "oclock"),
        (r"(?<=\d)[.](?=\d\d\b)", ":"),  # 7.30
        (r"(?<=\d)(?=(?:am|pm|oclock)\b)", " "),  # 7pm
        (r"'(?:re|m|s|ll|d|ve)\b", ""),
    )
)
_TOKEN: Final = re.compile(r"\d+:\d\d|\d+(?:st|nd|rd|th)\b|\d+|[^\W\d_]+(?:'[^\W\d_]+)?|[.,;:!?…]")


def number_in_words(number: int) -> str:
    """0-59 as said.

    >>> number_in_words(7), number_in_words(30), number_in_words(45)
    ('seven', 'thirty', 'forty-five')
    """
    if number < 20:
        return _SMALL_WORDS[number]
    tens = _TENS_TEXT.split()[number // 10 - 2]
    return f"{tens}-{_SMALL_WORDS[number % 10]}" if number % 10 else tens


def plain(text: str) -> str:
    """Small letters, single spaces, a comma for any punctuation, numbers in digits, no "'s" and "'re".

    >>> plain("We're four, at half-past Seven P.M.; or seven thirty-five. The twenty-first!")
    'we 4 , at half past 7 pm , or 7 35 , the 21st ,'
    """
    text = text.lower()
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    out: list[str] = []
    tens_before = 0
    for token in _TOKEN.findall(text):
        tens, tens_before = tens_before, 0
        if token in _TENS:
            tens_before = _TENS[token]
            out.append(str(tens_before))
        elif tens and 1 <= _NUMBERS.get(token, 0) <= 9:
            out[-1] = str(tens + _NUMBERS[token])
        elif tens and 1 <= _ORDINALS.get(token, 0) <= 9:
            out[-1] = _with_suffix(tens + _ORDINALS[token])
        elif token in _NUMBERS:
            out.append(str(_NUMBERS[token]))
        elif token in _ORDINALS:
            out.append(_with_suffix(_ORDINALS[token]))
        elif token[0] in ".,;:!?…":
            if out and out[-1] != ",":
                out.append(",")
        else:
            out.append(token)
    return " ".join(out)


def _with_suffix(number: int) -> str:
    suffix = "th" if 11 <= number <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"
