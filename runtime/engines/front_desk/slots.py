"""Finds the parts of a table booking in what a caller says: people, day, time, name. Pure.

Where something is said twice the last one counts, because people correct themselves ("at seven, no, at eight").
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from runtime.engines.front_desk.opening_hours import DAYS, RELATIVE_DAYS, mentioned_day

__all__ = ["SpokenTime", "find_day", "find_name", "find_people", "find_time", "lone_number", "whole_name"]


@dataclass(frozen=True, slots=True)
class SpokenTime:
    """A time as said: `hour` 0-23; `half` is "am", "pm" or empty where the caller left it open."""

    hour: int
    minute: int
    half: str = ""


_NOT_A_TIME: Final = r"(?!:| (?:am|pm|oclock|\d\d|in the|at night)\b)"
_PEOPLE: Final = re.compile(
    rf"\b(?:table|booking|reservation|seats?|places?) for (?:a party of |about )?(?P<a>\d{{1,3}})\b{_NOT_A_TIME}"
    rf"|\bparty of (?P<b>\d{{1,3}})\b"
    rf"|\b(?P<c>\d{{1,3}}) (?:people|persons?|guests?|adults?|diners?|of us)\b"
    rf"|\b(?:we|there|we are|there are|we will be|there will be) (?P<d>\d{{1,3}})\b{_NOT_A_TIME}"
    rf"|\bfor (?P<e>\d{{1,2}})\b{_NOT_A_TIME}"
    rf"|\b(?P<one>just me|only me|myself|just for me)\b|\b(?P<two>for a couple|a couple of people|both of us)\b"
)
_HOUR: Final = r"(?P<h>[01]?\d|2[0-3])"
_NEAR: Final = r"(?:at|around|about|by|from|make it|say)"
_AFTER: Final = r"(?: ?(?P<half>am|pm)\b)?"
_NOT_PEOPLE: Final = r"(?! (?:people|persons?|guests?|adults?|diners?|of us)\b)"
_PART_OF_DAY: Final = r"in the (?=morning|afternoon|evening)|at night\b"
_TIMES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b(?P<half_hour>half) past {_HOUR}\b{_AFTER}",
        rf"\b(?:a )?(?P<quarter>quarter) (?:past|(?P<before>to)) {_HOUR}\b{_AFTER}",
        rf"\b(?P<m>5|10|20|25) (?:minutes )?(?:past|(?P<before>to)) {_HOUR}\b{_AFTER}",
        rf"\b{_HOUR}:(?P<m>[0-5]\d)\b{_AFTER}",
        rf"\b(?:{_NEAR}|for) {_HOUR} ?(?P<m>[0-5]\d)\b{_NOT_PEOPLE}{_AFTER}",
        rf"\b{_HOUR} ?(?P<m>[0-5]\d) (?P<half>am|pm)\b",
        rf"\b{_HOUR} (?:oclock\b{_AFTER}|(?P<half_alone>am|pm)\b|{_PART_OF_DAY})",
        rf"\b{_NEAR} {_HOUR}\b{_NOT_PEOPLE}{_AFTER}",
        r"\b(?P<noon>noon|midday)\b",
    )
)
"""In order of trust; of matches that overlap the first kind wins. Minutes may be said ("7 30") or written ("730", "7:30")."""
_BARE_TIME: Final = re.compile(rf"\b{_HOUR}(?: ?(?P<m>[0-5]\d))?\b")
_PM_HINT: Final = re.compile(r"\b(?:afternoon|evening|tonight|night|dinner)\b")
_AM_HINT: Final = re.compile(r"\b(?:morning|breakfast)\b")

_MONTH: Final = r"(?:january|february|march|april|may|june|july|august|september|october|november|december)"
_DATE: Final = re.compile(
    rf"\b(?P<m1>{_MONTH}) (?:the )?(?P<d1>\d\d?)(?:st|nd|rd|th)?\b(?!:)"
    rf"|\b(?:the )?(?P<d2>\d\d?)(?:st|nd|rd|th)?(?: of)? (?P<m2>{_MONTH})\b"
    r"|\bthe (?P<d3>\d\d?(?:st|nd|rd|th))\b"
)

_NAME_WORD: Final = r"[^\W\d_]+(?:['’\-][^\W\d_]+)*"
_NAME: Final = re.compile(
    rf"\b(?:name(?:['’]s| is| of)?|under(?: the name(?: of)?)?)\s+(?P<sure>{_NAME_WORD}(?:\s+{_NAME_WORD}){{0,3}})"
    rf"|\b(?:this is|it is|it['’]s|I am|I['’]m)\s+(?P<maybe>{_NAME_WORD}(?:\s+{_NAME_WORD}){{0,3}})",
    re.IGNORECASE,
)
_NO_NAME_TEXT: Final = (
    "a about actually an and april are as at august back book booking but by calling can change could december do don't "
    "dont don’t eight february fine five for four from going good guests half have hello here hi i if in instead is it "
    "january july june just know like make march may me months my name need next nine no not november october of ok okay on "
    "one only or our pardon people person please really reserve right see september seven six so sorry sure table ten thank "
    "thanks that the then there this three to two uh um under us wait want we well what when who why will with would yeah "
    "yes you your "
)
_NO_NAME: Final = frozenset((*_NO_NAME_TEXT.split(), *DAYS, *" ".join(RELATIVE_DAYS).split(), "yes", "day", "after"))
_LONGEST_NAME_WORDS: Final = 3


def find_people(plain_text: str) -> int | None:
    """How many; may be any number, also one that no table holds."""
    found = list(_PEOPLE.finditer(plain_text))
    if not found:
        return None
    last = found[-1]
    if last["one"]:
        return 1
    if last["two"]:
        return 2
    return int(next(last[group] for group in "abcde" if last[group]))


def find_day(plain_text: str) -> str | None:
    """A day as it may be said back: "saturday", "tomorrow", "may 3rd", "the 3rd"."""
    dates = list(_DATE.finditer(plain_text))
    day = mentioned_day(plain_text)
    if day or not dates:
        return day
    last = dates[-1]
    if last["d3"]:
        return f"the {last['d3']}"
    number = int(last["d1"] or last["d2"])
    return f"{last['m1'] or last['m2']} {number}" if 1 <= number <= 31 else None


def find_time(plain_text: str, *, is_asked_for: bool) -> SpokenTime | None:
    """`is_asked_for`: the caller answers a question for the time, so that a number alone is one."""
    best: tuple[int, SpokenTime] | None = None
    taken: list[tuple[int, int]] = []
    for pattern in _TIMES:
        for match in pattern.finditer(plain_text):
            if any(match.start() < end and start < match.end() for start, end in taken):
                continue
            taken.append(match.span())
            time = _spoken_time(plain_text, match)
            if time and (best is None or match.start() > best[0]):
                best = match.start(), time
    if best is not None or not is_asked_for:
        return best[1] if best else None
    bare = list(_BARE_TIME.finditer(plain_text))
    return _spoken_time(plain_text, bare[-1]) if bare else None


def lone_number(plain_text: str) -> int | None:
    """The number of a text that holds exactly one, as an answer to "how many"."""
    numbers = re.findall(r"(?<![\d:])\d{1,3}(?![\d:]|st\b|nd\b|rd\b|th\b)", plain_text)
    return int(numbers[0]) if len(numbers) == 1 else None


def find_name(text: str) -> str | None:
    """A name that is introduced as one ("under Ann Smith", "my name is ..."), in the spelling of `text`."""
    name = None
    for match in _NAME.finditer(text):
        words = _leading_name(match["sure"] or match["maybe"])
        if words and (match["sure"] or words[0][0].isupper()):
            name = _capitalised(words)
    return name


def whole_name(text: str) -> str | None:
    """The answer to a question for the name, where it is little more than the name itself."""
    words = re.findall(_NAME_WORD, text)
    while words and words[0].lower() in _NO_NAME:
        words.pop(0)
    while words and words[-1].lower() in _NO_NAME:
        words.pop()
    if not 1 <= len(words) <= _LONGEST_NAME_WORDS or any(word.lower() in _NO_NAME for word in words):
        return None
    return None if re.search(r"\d", text) else _capitalised(words)


def _spoken_time(plain_text: str, match: re.Match[str]) -> SpokenTime | None:
    said = {name: value for name, value in match.groupdict().items() if value}
    minutes = 12 * 60 if "noon" in said else 60 * int(said["h"])
    past = 30 if "half_hour" in said else 15 if "quarter" in said else int(said.get("m", 0))
    minutes += -past if "before" in said else past
    half = said.get("half") or said.get("half_alone") or ""
    if not half and _PM_HINT.search(plain_text):
        half = "pm"
    elif not half and _AM_HINT.search(plain_text):
        half = "am"
    return SpokenTime(*divmod(minutes, 60), half) if minutes >= 0 else None


def _leading_name(said: str) -> list[str]:
    words: list[str] = []
    for word in said.split():
        if word.lower() in _NO_NAME or len(words) == _LONGEST_NAME_WORDS:
            break
        words.append(word)
    return words


def _capitalised(words: list[str]) -> str:
    return " ".join(word[0].upper() + word[1:] for word in words)
