"""What callers will do: repeatable, and distributed as stated."""  # requirement P1

from __future__ import annotations

from dataclasses import replace

import pytest

from perf.locust.plan import Habits, SessionPlan, plan_session
from runtime.primitives.rng import SeededRng

_MANY = 4_000


def _plans(habits: Habits, seed: int = 1, count: int = _MANY) -> list[SessionPlan]:
    return [plan_session(habits, SeededRng(seed * 1_000_003 + number)) for number in range(count)]


def test_the_same_seed_gives_the_same_callers() -> None:
    assert _plans(Habits(), 3, 50) == _plans(Habits(), 3, 50)
    assert _plans(Habits(), 3, 50) != _plans(Habits(), 4, 50)


def test_lengths_have_the_stated_mean_and_spread() -> None:
    habits = Habits(length_mean_s=188.0, length_sd_s=240.0, talk_s=20.0, pause_s=20.0)
    lengths = [plan.length_s for plan in _plans(habits)]
    mean = sum(lengths) / _MANY
    assert mean == pytest.approx(188.0, rel=0.08)
    assert (sum((length - mean) ** 2 for length in lengths) / _MANY) ** 0.5 == pytest.approx(240.0, rel=0.3)
    assert min(lengths) >= 1.0


def test_shares_are_as_stated() -> None:
    habits = Habits(idle_share=0.3, disconnect_share=0.25, barge_in_share=0.4, cancel_share=0.1)
    plans = _plans(habits)
    assert sum(plan.is_idle for plan in plans) / _MANY == pytest.approx(0.3, abs=0.03)
    assert sum(plan.disconnects for plan in plans) / _MANY == pytest.approx(0.25, abs=0.03)
    later = [spurt for plan in plans for spurt in plan.spurts[1:]]
    assert sum(spurt.barges_in for spurt in later) / len(later) == pytest.approx(0.4, abs=0.03)
    every = [spurt for plan in plans for spurt in plan.spurts]
    assert sum(spurt.cancels for spurt in every) / len(every) == pytest.approx(0.1, abs=0.02)


def test_nobody_interrupts_before_the_first_answer() -> None:
    plans = _plans(Habits(barge_in_share=1.0, idle_share=0.0), count=100)
    assert not any(plan.spurts[0].barges_in for plan in plans)
    assert all(spurt.barges_in for plan in plans for spurt in plan.spurts[1:])


def test_there_is_something_to_say_for_the_whole_session() -> None:
    for plan in _plans(Habits(idle_share=0.0), count=200):
        assert sum(spurt.pause_s + spurt.talk_s for spurt in plan.spurts) >= plan.length_s
        assert all(spurt.talk_s >= 0.4 for spurt in plan.spurts)


@pytest.mark.parametrize(
    ("name", "value"),
    [("idle_share", 1.1), ("cancel_share", -0.1), ("length_mean_s", 0.0), ("talk_s", float("nan")), ("between_s", -1.0)],
)
def test_habits_that_nobody_has_are_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        replace(Habits(), **{name: value})


def test_without_spread_all_sessions_are_equally_long() -> None:
    assert {round(plan.length_s, 9) for plan in _plans(Habits(length_sd_s=0.0, between_s=0.0), count=20)} == {12.0}
