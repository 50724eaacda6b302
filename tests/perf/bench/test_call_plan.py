"""Who calls when: drawn from a seed, spread, and fair to every recording."""

from __future__ import annotations

from collections import Counter

import pytest

from perf.bench.call_plan import plan_calls
from runtime.primitives.rng import SeededRng


def test_the_same_seed_gives_the_same_plan() -> None:
    assert plan_calls(10, 3, 10, 2.0, SeededRng(7)) == plan_calls(10, 3, 10, 2.0, SeededRng(7))
    assert plan_calls(10, 3, 10, 2.0, SeededRng(7)) != plan_calls(10, 3, 10, 2.0, SeededRng(8))


def test_starts_are_in_order_and_within_the_spread() -> None:
    starts = [call.start_s for call in plan_calls(50, 1, 10, 2.0, SeededRng(1))]
    assert starts == sorted(starts)
    assert 0.0 <= starts[0] < 0.4
    assert 1.6 < starts[-1] < 2.0


def test_a_single_call_starts_at_once() -> None:
    assert plan_calls(1, 3, 10, 2.0, SeededRng(1))[0].start_s == 0.0


@pytest.mark.parametrize(("count", "turns", "recordings"), [(10, 3, 10), (4, 5, 10), (7, 3, 2), (1, 3, 1)])
def test_every_recording_is_spoken_as_often_as_any_other(count: int, turns: int, recordings: int) -> None:
    plan = plan_calls(count, turns, recordings, 2.0, SeededRng(3))
    assert all(len(call.recordings) == turns for call in plan)
    spoken = Counter(index for call in plan for index in call.recordings)
    assert spoken.total() == count * turns
    times = [spoken[index] for index in range(recordings)]
    assert max(times) - min(times) <= 1


@pytest.mark.parametrize(
    ("count", "turns", "recordings", "spread_s"), [(0, 1, 1, 0.0), (1, 0, 1, 0.0), (1, 1, 0, 0.0), (1, 1, 1, -1.0)]
)
def test_what_makes_no_sense_is_refused(count: int, turns: int, recordings: int, spread_s: float) -> None:
    with pytest.raises(ValueError, match="allowed"):
        plan_calls(count, turns, recordings, spread_s, SeededRng(1))
