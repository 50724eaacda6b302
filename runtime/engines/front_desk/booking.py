"""A table booking that is filled over several turns. Pure.

Its state is a JSON object, so that it travels with the call. A value that cannot be (a table for 40) is not kept; `problem`
says so once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from runtime.dialogue.agent import Json
from runtime.engines.front_desk.opening_hours import RELATIVE_DAYS, hours_on
from runtime.engines.front_desk.plain_words import number_in_words, plain
from runtime.engines.front_desk.slots import (
    SpokenTime,
    find_day,
    find_name,
    find_people,
    find_time,
    lone_number,
    whole_name,
)

__all__ = ["MOST_PEOPLE", "Booking", "wants_table"]

MOST_PEOPLE: Final = 12
_ANY_DAY: Final = (9, 21)
"""First and last table where the day of the week is not known."""

_WANTS: Final = re.compile(
    r"\b(?:book|reserve|get|have|want|need|like)\b,?(?: (?!about|of|on)[\w',]+){0,6}? table\b|\btable for\b"
    r"|\b(?:make|want|have|like|need|place) (?:to make )?(?:a|an|my|the|our) (?:reservation|booking)\b"
    r"|\b(?:reservation|booking) for\b|\bbook (?:us|me) in\b"
)
_QUESTIONS: Final = {
    "people": "for how many people",
    "day": "on which day",
    "time": "at what time",
    "name": "under which name",
}


def wants_table(plain_text: str) -> bool:
    """
    >>> wants_table("i would like to book a table ,"), wants_table("i read a book about tables ,")
    (True, False)
    """
    return _WANTS.search(plain_text) is not None


@dataclass(frozen=True, slots=True)
class Booking:
    """What is known so far. `misses` counts turns in a row that added nothing."""

    people: int | None = None
    day: str | None = None
    time: SpokenTime | None = None
    name: str | None = None
    misses: int = 0
    problem: str = ""

    @classmethod
    def from_json(cls, value: Json) -> Booking | None:
        """None where there is none; a note of another version's making counts as none."""
        match value:
            case {
                "people": int() | None as people,
                "day": str() | None as day,
                "time": list() | None as time,
                "name": str() | None as name,
                "misses": int(misses),
            }:
                match time:
                    case [int(hour), int(minute), str(half)]:
                        return cls(people, day, SpokenTime(hour, minute, half), name, misses)
                return cls(people, day, None, name, misses)
        return None

    def to_json(self) -> Json:
        time: Json = [self.time.hour, self.time.minute, self.time.half] if self.time else None
        return {"people": self.people, "day": self.day, "time": time, "name": self.name, "misses": self.misses}

    @property
    def missing(self) -> tuple[str, ...]:
        known = {"people": self.people, "day": self.day, "time": self.time, "name": self.name}
        return tuple(slot for slot, value in known.items() if value is None)

    @property
    def question(self) -> str:
        """Asks for exactly what is missing."""
        asked = [_QUESTIONS[slot] for slot in self.missing]
        joined = f"{', '.join(asked[:-1])} and {asked[-1]}" if len(asked) > 1 else asked[0]
        return f"{joined[0].upper()}{joined[1:]}?"

    def hear(self, text: str) -> Booking:
        """With what `text` adds or corrects."""
        said = plain(text)
        missing = self.missing
        time = find_time(said, is_asked_for=missing[:1] == ("time",))
        people = find_people(said)
        if people is None and time is None and missing[:1] == ("people",):
            people = lone_number(said)
        name = find_name(text) or (whole_name(text) if missing == ("name",) else None)
        found = {
            slot: value
            for slot, value in {"people": people, "day": find_day(said), "time": time, "name": name}.items()
            if value is not None
        }
        heard = replace(self, misses=0 if found else self.misses + 1, problem="", **found)  # type: ignore[arg-type]
        return heard._without_impossible()

    def hear_all(self, parts: Sequence[str]) -> Booking:
        """The same for an utterance in several parts: as if it had been said at once, except that a part that adds nothing so
        may be the answer to the question over which it was said."""
        heard = self
        for count, part in enumerate(parts, 1):
            at_once = self.hear(" ".join(parts[:count]))
            known = {slot: getattr(at_once, slot) for slot in _QUESTIONS if slot not in at_once.missing}
            with_part = replace(heard, **known, misses=at_once.misses, problem=at_once.problem)
            adds_nothing = count > 1 and replace(with_part, misses=heard.misses, problem=heard.problem) == heard
            heard = heard.hear(part) if adds_nothing else with_part
        return heard

    def arguments(self) -> dict[str, Json]:
        """Of the tool `book_table`; the booking must be complete."""
        assert not self.missing, "only a complete booking is booked"
        hour, minute = self._clock_time() or (0, 0)
        return {"people": self.people, "day": self.day, "time": f"{hour:02}:{minute:02}", "name": self.name}

    def sentence(self) -> str:
        """Reads the complete booking back."""
        people, day = number_in_words(self.people or 0), _day_in_words(self.day or "")
        time = _time_in_words(*(self._clock_time() or (0, 0)))
        return f"Your table for {people} {day} at {time} is booked, under {self.name}."

    def _without_impossible(self) -> Booking:
        if self.people is not None and not 1 <= self.people <= MOST_PEOPLE:
            return replace(self, people=None, problem=f"A table seats one to {number_in_words(MOST_PEOPLE)} people.")
        if self.time is not None and self._clock_time() is None:
            first, last = self._table_hours()
            words = f"{_time_in_words(first, 0)} to {_time_in_words(last, 0)}"
            when = f"{_day_in_words(self.day)}, tables" if self.day else "Tables"
            return replace(self, time=None, problem=f"{when[0].upper()}{when[1:]} are given from {words}.")
        return self

    def _table_hours(self) -> tuple[int, int]:
        hours = hours_on(self.day)
        return (hours.opens, hours.last_table) if hours else _ANY_DAY

    def _clock_time(self) -> tuple[int, int] | None:
        """The time within the hours of tables; where the caller left morning or evening open, the later one that fits."""
        if self.time is None:
            return None
        first, last = self._table_hours()
        hour, minute = self.time.hour, self.time.minute
        halves = {"am": (0,), "pm": (12,)}.get(self.time.half, (12, 0))
        candidates = [hour] if hour > 12 else [hour % 12 + half for half in halves]
        fitting = [hour for hour in candidates if (first, 0) <= (hour, minute) <= (last, 0)]
        return (fitting[0], minute) if fitting else None


def _day_in_words(day: str) -> str:
    if day in RELATIVE_DAYS:
        return f"the {day}" if day == "day after tomorrow" else day
    if day.startswith("next "):
        return f"next {day.removeprefix('next ').capitalize()}"
    return f"on {day}" if day.startswith("the ") else f"on {day.capitalize()}"


def _time_in_words(hour: int, minute: int) -> str:
    if (hour, minute) == (12, 0):
        return "noon"
    part = "in the morning" if hour < 12 else "in the afternoon" if hour < 18 else "in the evening"
    clock = number_in_words((hour - 1) % 12 + 1)
    if minute:
        clock += f" oh {number_in_words(minute)}" if minute < 10 else f" {number_in_words(minute)}"
    return f"{clock} {part}"
