"""Reserve, look twice, escalate: every way through it, and what is held on the way."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.routing.decision import Candidate
from balancer.routing.tries import Tries


def candidates(*enough: float) -> list[Candidate]:
    return [Candidate(slot, f"r{slot}", 1, 0.0, each, 0.0, 0, []) for slot, each in enumerate(enough)]


@dataclass
class Walk:
    asked: list[int]
    taken: int | None
    released: list[int]
    most_held: int


def walk(enough: list[float], answers: list[tuple[bool, float, float]]) -> Walk:
    """Answers by candidate: admitted, load, fullness."""
    tries = Tries(candidates(*enough))
    found = Walk([], None, [], 0)
    held: set[int] = set()
    step = tries.first()
    while step.ask is not None:
        slot = step.ask.slot
        found.asked.append(slot)
        admitted, load, fullness = answers[slot]
        if admitted:
            held.add(slot)
            found.most_held = max(found.most_held, len(held))
            step = tries.admitted(step.ask, load, fullness)
        else:
            step = tries.refused()
        if step.release is not None:
            held.remove(step.release.slot)
            found.released.append(step.release.slot)
        kept = {tries.held.slot} if tries.held is not None else set()
        assert held - kept == ({step.take.slot} - kept if step.take is not None else set())
    if step.take is not None:
        found.taken = step.take.slot
        held.remove(found.taken)
    assert not held, "nothing stays held"
    return found


NO, GOOD = (False, 0.0, 0.0), (True, 1.0, 0.1)


@pytest.mark.parametrize(
    ("answers", "asked", "taken", "released"),
    [
        ([GOOD, GOOD, GOOD], [0], 0, []),
        ([NO, GOOD, GOOD], [0, 1], 1, []),
        ([NO, NO, GOOD], [0, 1, 2], 2, []),
        ([NO, NO, NO], [0, 1, 2], None, []),
        ([(True, 9.0, 0.9), GOOD, GOOD], [0, 1], 1, [0]),  # fuller than it looked; the next is well
        ([(True, 9.0, 0.9), NO, GOOD], [0, 1, 2], 2, [0]),
        ([(True, 9.0, 0.9), NO, NO], [0, 1, 2], 0, []),  # the fallback
        ([(True, 9.0, 0.9), (True, 9.0, 0.8), NO], [0, 1, 2], 1, [0]),  # the less full stays
        ([(True, 9.0, 0.8), (True, 9.0, 0.9), NO], [0, 1, 2], 0, [1]),
        ([(True, 9.0, 0.9), (True, 9.0, 0.8), (True, 9.0, 0.7)], [0, 1, 2], 2, [0, 1]),
        ([(True, 9.0, 0.7), (True, 9.0, 0.8), (True, 9.0, 0.9)], [0, 1, 2], 0, [1, 2]),
        ([NO, (True, 9.0, 0.9), GOOD], [0, 1, 2], 2, [1]),
    ],
)
def test_every_way(answers: list[tuple[bool, float, float]], asked: list[int], taken: int | None, released: list[int]) -> None:
    found = walk([2.0, 2.0, 2.0], answers)
    assert (found.asked, found.taken, found.released) == (asked, taken, released)


def test_nobody_to_ask() -> None:
    step = Tries([]).first()
    assert (step.ask, step.take, step.release) == (None, None, None)


answer = st.tuples(st.booleans(), st.floats(0.0, 10.0), st.floats(0.0, 1.5))


@given(st.lists(st.tuples(st.floats(0.0, 10.0), answer), max_size=6))
def test_at_most_two_are_held_and_who_admits_is_not_in_vain(rows: list[tuple[float, tuple[bool, float, float]]]) -> None:
    found = walk([enough for enough, _ in rows], [each for _, each in rows])
    assert found.most_held <= 2
    assert found.asked == list(range(len(found.asked)))  # in order, nobody twice
    admitted = [slot for slot in found.asked if rows[slot][1][0]]
    assert (found.taken is None) == (not admitted)
    assert sorted([*found.released, *([] if found.taken is None else [found.taken])]) == admitted
