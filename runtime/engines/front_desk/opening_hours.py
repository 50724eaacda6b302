"""When the restaurant is open, and whether somebody asks for that. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["DAYS", "RELATIVE_DAYS", "WEEK", "Hours", "asks_for_hours", "hours_on", "hours_sentence", "mentioned_day"]

DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
RELATIVE_DAYS: Final = ("day after tomorrow", "tomorrow", "tonight", "today")


@dataclass(frozen=True, slots=True)
class Hours:
    """Whole hours of the day, 0-24; the last table is given an hour before closing."""

    opens: int
    closes: int
    in_words: str

    @property
    def last_table(self) -> int:
        return self.closes - 1


_WORKDAY: Final = Hours(9, 22, "from nine in the morning to ten at night")
WEEK: Final = dict.fromkeys(DAYS[:5], _WORKDAY) | {
    "saturday": Hours(9, 17, "from nine to five"),
    "sunday": Hours(10, 16, "from ten to four"),
}

_ASKS: Final = re.compile(
    r"\b(?:when|what time|how late|how early|how long|until|till)\b.*\b(?:open|opens|opening|close|closes|closing|closed|shut)\b"
    r"|\b(?:are|is|will) (?:you|it|they|the (?:restaurant|kitchen|office|place)) (?:\w+ ){0,2}(?:open|closed)\b"
    r"|\b(?:do|does) (?:you|it|they|the (?:restaurant|kitchen|office|place)) (?:\w+ ){0,2}(?:open|close)\b"
    r"|\b(?:opening|business|office|closing) (?:hours?|times?)\b"
    r"|\bwhat\b.*\bhours\b|\byour hours\b"
)
_DAY: Final = re.compile(rf"\b(?:((?:next )?(?:{'|'.join(DAYS)}))s?|({'|'.join(RELATIVE_DAYS)}))\b")


def asks_for_hours(plain_text: str) -> bool:
    """
    >>> asks_for_hours("when are you open on saturday ,"), asks_for_hours("i left the window open ,")
    (True, False)
    >>> asks_for_hours("what 's your opening hour on sunday ?")
    True
    """
    return _ASKS.search(plain_text) is not None


def mentioned_day(plain_text: str) -> str | None:
    """The last day named: one of `DAYS`, perhaps with "next " before it, or of `RELATIVE_DAYS`."""
    found = list(_DAY.finditer(plain_text))
    return (found[-1][1] or found[-1][2]) if found else None


def hours_on(day: str | None) -> Hours | None:
    """Of a day of the week; None for any other day, since the agent has no calendar."""
    return WEEK.get(day.removeprefix("next ")) if day else None


def hours_sentence(day: str | None) -> str:
    """
    >>> hours_sentence("saturday")
    'On Saturday we are open from nine to five.'
    """
    hours = hours_on(day)
    if day and hours:
        return f"On {day.removeprefix('next ').capitalize()} we are open {hours.in_words}."
    week = (
        f"open Monday to Friday {_WORKDAY.in_words}, on Saturday {WEEK['saturday'].in_words} "
        f"and on Sunday {WEEK['sunday'].in_words}."
    )
    return f"I have no calendar here, but we are {week}" if day else f"We are {week}"
