"""The booking's state: what is asked, what cannot be, how a time is taken, and that it travels as JSON."""

from __future__ import annotations

import json

import pytest

from runtime.dialogue.agent import Json
from runtime.engines.front_desk.booking import Booking, wants_table
from runtime.engines.front_desk.plain_words import plain
from runtime.engines.front_desk.slots import SpokenTime


@pytest.mark.parametrize(
    "text",
    [
        "I'd like to book a table",
        "can I reserve the big round table",
        "Table for two?",
        "I want to make a reservation",
        "a booking for two",
    ],
)
def test_wants_a_table(text: str) -> None:
    assert wants_table(plain(text))


@pytest.mark.parametrize(
    "text", ["he was more respectable", "a book about a table", "the table is broken", "I like books", "the booking"]
)
def test_wants_none(text: str) -> None:
    assert not wants_table(plain(text))


@pytest.mark.parametrize(
    ("booking", "question"),
    [
        (Booking(), "For how many people, on which day, at what time and under which name?"),
        (Booking(people=2, name="Al"), "On which day and at what time?"),
        (Booking(people=2, day="today", time=SpokenTime(7, 0)), "Under which name?"),
    ],
)
def test_it_asks_for_exactly_what_is_missing(booking: Booking, question: str) -> None:
    assert booking.question == question


@pytest.mark.parametrize(
    ("day", "said", "time"),
    [
        ("tomorrow", "at seven", "19:00"),
        ("tomorrow", "at nine", "21:00"),
        ("tomorrow", "at nine in the morning", "09:00"),
        ("tomorrow", "at ten", "10:00"),
        ("friday", "at noon", "12:00"),
        ("friday", "at 19:30", "19:30"),
        ("saturday", "at four", "16:00"),
        ("next sunday", "at eleven", "11:00"),
        ("saturday", "at half past four", None),
        ("sunday", "at nine", None),
        ("monday", "at nine thirty", "09:30"),
        ("monday", "at eleven p.m.", None),
        ("monday", "at 12 am", None),
    ],
)
def test_an_open_half_of_the_day_is_the_later_one_that_fits(day: str, said: str, time: str | None) -> None:
    booking = Booking(people=2, day=day, name="Al").hear(said)
    if time is None:
        assert booking.time is None
        assert "ables are given from" in booking.problem
    else:
        assert booking.arguments()["time"] == time


@pytest.mark.parametrize(
    ("day", "time", "words"),
    [
        ("monday", SpokenTime(7, 5), "on Monday at seven oh five in the evening"),
        ("next monday", SpokenTime(12, 0), "next Monday at noon"),
        ("the 3rd", SpokenTime(12, 30), "on the 3rd at twelve thirty in the afternoon"),
        ("may 3", SpokenTime(11, 0), "on May 3 at eleven in the morning"),
        ("day after tomorrow", SpokenTime(18, 15), "the day after tomorrow at six fifteen in the evening"),
    ],
)
def test_it_is_read_back_in_words(day: str, time: SpokenTime, words: str) -> None:
    assert Booking(4, day, time, "Ann").sentence() == f"Your table for four {words} is booked, under Ann."


def test_a_later_day_can_make_the_time_impossible() -> None:
    booking = Booking(people=2, time=SpokenTime(8, 0, "pm"), name="Al").hear("on Saturday")
    assert booking.missing == ("time",)
    assert booking.problem == "On Saturday, tables are given from nine in the morning to four in the afternoon."
    assert booking.hear("at three").problem == ""


def test_misses_count_turns_in_a_row_that_add_nothing() -> None:
    booking = Booking(people=2).hear("what a day").hear("so nice")
    assert booking.misses == 2
    assert booking.hear("tomorrow").misses == 0


@pytest.mark.parametrize(
    ("parts", "missing"),
    [
        (["a table", "four"], ("day", "time", "name")),
        (["a table for", "two on Monday"], ("time", "name")),
        (["a table", "four", "tomorrow at", "seven"], ("name",)),
        (["a table for four tomorrow", "at seven under", "Ann"], ()),
        (["a table for four tomorrow at seven", "Ann"], ()),
        (["a table for four", "the weather"], ("day", "time", "name")),
    ],
)
def test_parts_are_heard_as_one_and_as_answers(parts: list[str], missing: tuple[str, ...]) -> None:
    assert Booking().hear_all(parts).missing == missing


@pytest.mark.parametrize("booking", [Booking(), Booking(4, "today", SpokenTime(7, 30, "pm"), "Ann", 1)])
def test_it_travels_as_json(booking: Booking) -> None:
    assert Booking.from_json(json.loads(json.dumps(booking.to_json()))) == booking


def test_the_json_of_another_version_is_no_booking() -> None:
    others: list[Json] = [None, 3, [], {}, {"people": "four", "day": None, "time": None, "name": None, "misses": 0}]
    for value in others:
        assert Booking.from_json(value) is None
