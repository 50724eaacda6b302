"""Questions about opening hours, and their answers."""

from __future__ import annotations

import pytest

from runtime.engines.front_desk.opening_hours import WEEK, asks_for_hours, hours_on, hours_sentence, mentioned_day
from runtime.engines.front_desk.plain_words import plain


@pytest.mark.parametrize(
    "text",
    [
        "When are you open on Saturday?",
        "What time do you close?",
        "How late are you open tonight",
        "Are you open on Sunday",
        "Is the restaurant still open?",
        "Do you open early?",
        "What are your opening hours?",
        "your hours, please",
        "Until when is the kitchen open?",
    ],
)
def test_asked(text: str) -> None:
    assert asks_for_hours(plain(text))


@pytest.mark.parametrize(
    "text", ["I left the window open", "the shop is closed", "two hours ago", "tell him to open the door", "are you there", ""]
)
def test_not_asked(text: str) -> None:
    assert not asks_for_hours(plain(text))


def test_every_day_of_the_week_has_hours_with_room_for_a_table() -> None:
    assert len(WEEK) == 7
    for day, hours in WEEK.items():
        assert 0 <= hours.opens < hours.last_table < hours.closes <= 24
        assert hours_on(day) is hours_on(f"next {day}") is hours
        assert hours.in_words in hours_sentence(day)
    assert hours_on("tomorrow") is hours_on(None) is None


@pytest.mark.parametrize(
    ("text", "day"), [("on monday or friday", "friday"), ("the day after tomorrow", "day after tomorrow"), ("x", None)]
)
def test_mentioned_day(text: str, day: str | None) -> None:
    assert mentioned_day(text) == day


def test_a_day_without_a_calendar_gets_the_whole_week() -> None:
    assert hours_sentence("tomorrow").startswith("I have no calendar here, but we are open Monday to Friday from nine")
    assert hours_sentence(None).startswith("We are open Monday to Friday")
