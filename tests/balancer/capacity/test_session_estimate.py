"""What a runtime holds now, from what it said and what was seen since; and how fast sessions end."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.capacity.session_estimate import EndRate, expected_sessions


def estimate(
    base: float, known: float = 0.0, ended: float = 0.0, in_flight: float = 0.0, others: float = 0.0, age_s: float = 0.0
) -> float:
    one, two, three, four, five, age = (np.array([each]) for each in (base, known, ended, in_flight, others, age_s))
    return float(expected_sessions(one, two, three, four, five, 1 / 180, age)[0])


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"base": 10.0}, 10.0),
        ({"base": 10.0, "age_s": 180.0}, 10.0 / math.e),  # strangers end unseen
        ({"base": 10.0, "known": 10.0, "age_s": 180.0}, 10.0),  # of our own we would have heard
        ({"base": 10.0, "known": 4.0, "age_s": 180.0}, 4.0 + 6.0 / math.e),
        ({"base": 10.0, "known": 10.0, "ended": 3.0, "in_flight": 2.0, "others": 0.5}, 9.5),
        ({"base": 3.0, "known": 9.0}, 3.0),  # more known than there are: the report is newer
        ({"base": 1.0, "known": 1.0, "ended": 5.0}, 0.0),
    ],
)
def test_the_formula(given_: dict[str, float], expected: float) -> None:
    assert estimate(**given_) == pytest.approx(expected)


amounts = st.floats(0.0, 1000.0)


@given(amounts, amounts, amounts, amounts, amounts, st.floats(0.0, 1e6))
def test_never_negative_and_older_is_never_more(
    base: float, known: float, ended: float, flight: float, others: float, age_s: float
) -> None:
    now = estimate(base, known, ended, flight, others, age_s)
    assert now >= 0.0
    assert estimate(base, known, ended, flight, others, 2 * age_s) <= now + 1e-9


def test_the_end_rate_starts_at_the_usual_and_follows_what_is_seen() -> None:
    ends = EndRate(180.0)
    assert ends.per_s == pytest.approx(1 / 180)
    for _ in range(600):
        ends.add(10.0, 600.0)  # sessions of a minute
    assert ends.per_s == pytest.approx(1 / 60, rel=0.02)
    for _ in range(2000):
        ends.add(10.0, 3000.0)
    assert ends.per_s == pytest.approx(1 / 300, rel=0.02)  # the minute is forgotten


def test_a_quiet_moment_moves_the_end_rate_little() -> None:
    ends = EndRate(180.0)
    ends.add(0.0, 180.0)
    assert ends.per_s == pytest.approx(1 / 180, rel=0.02)
