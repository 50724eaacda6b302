"""People, days, times and names in what callers say and recognisers write."""

from __future__ import annotations

import pytest

from runtime.engines.front_desk.plain_words import plain
from runtime.engines.front_desk.slots import SpokenTime, find_day, find_name, find_people, find_time, lone_number, whole_name


@pytest.mark.parametrize(
    ("text", "people"),
    [
        ("a table for four tomorrow at seven", 4),
        ("table for 12 people", 12),
        ("a party of six", 6),
        ("there are three of us", 3),
        ("we're five", 5),
        ("for two, please", 2),
        ("just me", 1),
        ("a couple of people", 2),
        ("for two, no, for three people", 3),
        ("a table for 100", 100),
        ("a table for seven thirty", None),
        ("a table for 7:30", None),
        ("for 7 p.m.", None),
        ("at four", None),
        ("a table", None),
    ],
)
def test_people(text: str, people: int | None) -> None:
    assert find_people(plain(text)) == people


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("on Saturday", "saturday"),
        ("next Friday, please", "next friday"),
        ("Mondays", "monday"),
        ("tomorrow", "tomorrow"),
        ("the day after tomorrow", "day after tomorrow"),
        ("tonight at eight", "tonight"),
        ("on Monday, sorry, on Tuesday", "tuesday"),
        ("May 3rd", "may 3"),
        ("the third of May", "may 3"),
        ("on the twenty-first", "the 21st"),
        ("July 45", None),
        ("we may come", None),
        ("some day", None),
    ],
)
def test_day(text: str, day: str | None) -> None:
    assert find_day(plain(text)) == day


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("at seven", SpokenTime(7, 0)),
        ("at seven thirty", SpokenTime(7, 30)),
        ("at 730", SpokenTime(7, 30)),
        ("at 7:30 p.m.", SpokenTime(7, 30, "pm")),
        ("7.30", SpokenTime(7, 30)),
        ("19:45", SpokenTime(19, 45)),
        ("around 1930", SpokenTime(19, 30)),
        ("7 30 pm", SpokenTime(7, 30, "pm")),
        ("seven pm", SpokenTime(7, 0, "pm")),
        ("eight o'clock in the morning", SpokenTime(8, 0, "am")),
        ("seven in the evening", SpokenTime(7, 0, "pm")),
        ("tonight at eight", SpokenTime(8, 0, "pm")),
        ("half past seven", SpokenTime(7, 30)),
        ("a quarter past 12", SpokenTime(12, 15)),
        ("quarter to eight p.m.", SpokenTime(7, 45, "pm")),
        ("ten to eight", SpokenTime(7, 50)),
        ("twenty minutes past six", SpokenTime(6, 20)),
        ("noon", SpokenTime(12, 0)),
        ("at seven, no, at eight", SpokenTime(8, 0)),
        ("for 7:30", SpokenTime(7, 30)),
        ("four", None),
        ("for four people", None),
        ("by 100 people", None),
        ("at 7:75", SpokenTime(7, 0)),
        ("quarter to 0", None),
        ("at 25", None),
    ],
)
def test_time(text: str, time: SpokenTime | None) -> None:
    assert find_time(plain(text), is_asked_for=False) == time


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("seven", SpokenTime(7, 0)),
        ("seven thirty", SpokenTime(7, 30)),
        ("730", SpokenTime(7, 30)),
        ("eleven", SpokenTime(11, 0)),
        ("later", None),
        ("99", None),
    ],
)
def test_a_number_alone_answers_the_question_for_the_time(text: str, time: SpokenTime | None) -> None:
    assert find_time(plain(text), is_asked_for=True) == time


@pytest.mark.parametrize(
    ("text", "number"), [("four", 4), ("um, 4, please", 4), ("4 or 5", None), ("4:30", None), ("the 4th", None)]
)
def test_lone_number(text: str, number: int | None) -> None:
    assert lone_number(plain(text)) == number


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("My name is Ann.", "Ann"),
        ("the name's Anne-Marie O’Neil, thanks", "Anne-Marie O’Neil"),
        ("in the name of Lee Wong", "Lee Wong"),
        ("under Ann Smith at seven", "Ann Smith"),
        ("Under the name of van Dyk", "Van Dyk"),
        ("I'm Bob and I want a table", "Bob"),
        ("This is Ann, no, my name is Anna", "Anna"),
        ("I'm calling about a table", None),
        ("it's Monday", None),
        ("under what name", None),
        ("no name yet", "Yet"),
        ("under 12", None),
    ],
)
def test_name(text: str, name: str | None) -> None:
    assert find_name(text) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Ann", "Ann"),
        ("ann smith, please.", "Ann Smith"),
        ("Yes, it is for Bob.", "Bob"),
        ("I don't know", None),
        ("What?", None),
        ("at 7", None),
        ("the cat that sat on the mat", None),
        ("", None),
    ],
)
def test_whole_name(text: str, name: str | None) -> None:
    assert whole_name(text) == name
