"""What reports teach of capacity: one measurement a window and runtime, whoever is new is ordinary, lives are kept apart."""

from __future__ import annotations

import math

import numpy as np
import pytest

from balancer.routing.learned_capacity import LearnedCapacity
from balancer.routing.load_rule import LoadRule
from runtime.primitives.clock import NS_PER_S

SIZE = 20
SLOTS = np.arange(SIZE)
RULE = LoadRule(report_interval_s=10.0, mean_life_s=180.0)


def cpu(sessions: np.ndarray) -> np.ndarray:
    return 0.01 * sessions


def sessions_at(at_s: float) -> np.ndarray:
    """Each runtime slowly comes to every load from 6 to 42."""
    sessions: np.ndarray = 24.0 + 18.0 * np.sin(at_s / 150.0 + SLOTS)
    return sessions


def run(learned: LearnedCapacity, windows: int, learns: bool = True) -> int:
    """All report every 10 s; the time after it."""
    for window in range(windows):
        sessions = sessions_at(10.0 * window)
        learned.measure(SLOTS, sessions, cpu(sessions), window * 10 * NS_PER_S)
        if learns:
            learned.learn(SLOTS, window * 10 * NS_PER_S)
    return windows * 10 * NS_PER_S


def test_capacity_follows_from_what_was_seen() -> None:
    learned = LearnedCapacity(SIZE, RULE)
    run(learned, 30)
    assert learned.curve is not None
    # 80 sessions use 0.8; talk takes its margin, and nothing is followed beyond a quarter more than was seen.
    assert learned.full_capacity == pytest.approx(np.full(SIZE, 52.0), abs=2.0)


def test_nothing_is_lost_when_nobody_asks_for_long() -> None:
    asked, unasked = LearnedCapacity(SIZE, RULE), LearnedCapacity(SIZE, RULE)
    run(asked, 30)
    now_ns = run(unasked, 30, learns=False)
    unasked.learn(SLOTS, now_ns)
    assert asked.curve is not None
    assert unasked.curve is not None
    assert unasked.curve.reports == pytest.approx(asked.curve.reports, rel=0.1)
    assert unasked.full_capacity == pytest.approx(asked.full_capacity, rel=0.02)


def test_reports_closer_than_a_window_are_one_measurement() -> None:
    often, seldom = LearnedCapacity(SIZE, RULE), LearnedCapacity(SIZE, RULE)
    for second in range(100):
        sessions = sessions_at(second)
        often.measure(SLOTS, sessions, cpu(sessions), second * NS_PER_S)
        often.learn(SLOTS, second * NS_PER_S)
    run(seldom, 10)
    assert often.curve is not None
    assert seldom.curve is not None
    assert seldom.curve.reports <= often.curve.reports <= 1.25 * seldom.curve.reports


def test_a_new_life_and_a_new_slot_are_taken_for_ordinary_at_once() -> None:
    learned = LearnedCapacity(SIZE, RULE)
    run(learned, 30)
    usual = learned.full_capacity[0]
    learned.factors.speed[3] = 2.0
    learned.learn(SLOTS, 1000 * NS_PER_S)
    assert learned.full_capacity[3] < 0.7 * usual
    learned.forget(3)
    assert learned.full_capacity[3] == pytest.approx(usual, rel=0.02)
    learned.grow(2 * SIZE)
    assert learned.full_capacity[SIZE:] == pytest.approx(np.full(SIZE, usual), rel=0.02)


def test_what_a_dead_life_showed_teaches_nothing_of_the_next() -> None:
    learned = LearnedCapacity(SIZE, RULE)
    now_ns = run(learned, 10)
    sessions = np.full(SIZE, 20.0)
    learned.measure(SLOTS, sessions, cpu(sessions), now_ns)
    learned.measure(SLOTS, sessions, np.where(SLOTS == 3, 0.9, cpu(sessions)), now_ns + 10 * NS_PER_S)
    learned.forget(3)
    learned.learn(SLOTS, now_ns + 11 * NS_PER_S)
    assert learned.factors.sessions[3] == 0.0
    assert learned.factors.sessions[4] == 20.0


def test_unknown_cpu_and_a_rule_that_learns_nothing_teach_nothing() -> None:
    for learned, used in (
        (LearnedCapacity(SIZE, RULE), np.full(SIZE, math.nan)),
        (LearnedCapacity(SIZE, LoadRule(learns_capacity=False)), np.full(SIZE, 0.3)),
    ):
        for window in range(30):
            learned.measure(SLOTS, np.full(SIZE, 20.0), used, window * 10 * NS_PER_S)
            learned.learn(SLOTS, window * 10 * NS_PER_S)
        assert learned.curve is None


def test_a_slow_machine_is_found_also_while_nobody_asks() -> None:
    learned = LearnedCapacity(SIZE, RULE)
    now_ns = run(learned, 30)
    for window in range(30):
        at_ns = now_ns + 10 * window * NS_PER_S
        sessions = sessions_at(at_ns / NS_PER_S)
        learned.measure(SLOTS, sessions, cpu(sessions) * np.where(SLOTS == 3, 2.0, 1.0), at_ns)
    learned.learn(SLOTS, at_ns)
    assert learned.factors.speed[3] > 1.3  # the mean of thirty windows before and thirty after


@pytest.mark.parametrize("change", [2.5, 0.4])
def test_calls_whose_cost_changes_for_good_are_learned_anew(change: float) -> None:
    """The fleet stays at loads that it can bear, so what was seen at others is never seen again."""
    learned = LearnedCapacity(SIZE, RULE)
    now_ns = run(learned, 60)
    for window in range(180):
        at_ns = now_ns + 10 * window * NS_PER_S
        sessions = 20.0 + 3.0 * np.sin(at_ns / NS_PER_S / 150.0 + SLOTS)
        learned.measure(SLOTS, sessions, cpu(sessions) * change, at_ns)
        learned.learn(SLOTS, at_ns)
    assert learned.curve is not None
    there = np.array([20.0])
    assert learned.curve.utilisation(there) == pytest.approx(change * cpu(there), rel=0.15)
    assert learned.full_capacity[0] == pytest.approx(30.0 if change > 1.0 else 52.0, abs=6.0)


def test_an_idle_runtime_with_a_stuck_thread_tells_nothing_of_the_base_load() -> None:
    sound, fooled = LearnedCapacity(SIZE, RULE), LearnedCapacity(SIZE, RULE)
    for window in range(60):
        at_ns, sessions = 10 * window * NS_PER_S, sessions_at(10.0 * window)
        for learned, is_stuck in ((sound, SLOTS < 0), (fooled, SLOTS == 7)):
            learned.measure(SLOTS, np.where(is_stuck, 0.0, sessions), np.where(is_stuck, 1.0, cpu(sessions)), at_ns)
            learned.learn(SLOTS, at_ns)
    assert fooled.full_capacity[0] == pytest.approx(sound.full_capacity[0], rel=0.03)
