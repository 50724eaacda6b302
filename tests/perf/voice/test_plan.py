"""What is said, when and how: drawn from a seed, within bounds, and fair to every recording."""

from __future__ import annotations

from collections import Counter

import pytest

from perf.voice.plan import Manners, TurnPlans, plan_starts
from runtime.primitives.rng import SeededRng


def _turns(seed: int, count: int = 200, recordings: int = 10, manners: Manners | None = None) -> list[object]:
    plans = TurnPlans(recordings, manners or Manners(), SeededRng(seed))
    return [plans.next() for _ in range(count)]


def test_the_same_seed_gives_the_same_conversation() -> None:
    assert _turns(7) == _turns(7)
    assert _turns(7) != _turns(8)


def test_starts_are_in_order_and_within_the_spread() -> None:
    starts = plan_starts(50, 2.0, SeededRng(1))
    assert starts == sorted(starts)
    assert 0.0 <= starts[0] < 0.4
    assert 1.6 < starts[-1] < 2.0
    assert plan_starts(1, 2.0, SeededRng(1)) == [0.0]


def test_manners_are_kept() -> None:
    plans = TurnPlans(10, Manners(joins=0.5, interrupts=0.3, makes_noise=0.15), SeededRng(1))
    turns = [plans.next() for _ in range(2_000)]
    assert sum(len(turn.recordings) == 2 for turn in turns) / 2_000 == pytest.approx(0.5, abs=0.05)
    assert sum(turn.reaction.interrupts for turn in turns) / 2_000 == pytest.approx(0.3, abs=0.05)
    assert sum(turn.reaction.makes_noise for turn in turns) / 2_000 == pytest.approx(0.15, abs=0.05)
    assert not any(turn.reaction.interrupts and turn.reaction.makes_noise for turn in turns)


def test_pauses_are_natural() -> None:
    plans = TurnPlans(10, Manners(joins=1.0), SeededRng(1))
    pauses = sorted(plans.next().pauses_s[0] for _ in range(2_000))
    assert pauses[1_000] == pytest.approx(0.3, abs=0.03)
    assert pauses[100] > 0.1
    assert 0.6 < pauses[1_950] <= pauses[-1] <= 1.2


def test_every_recording_is_spoken_as_often_as_any_other() -> None:
    plans = TurnPlans(7, Manners(), SeededRng(3))
    spoken = Counter(index for _ in range(100) for index in plans.next().recordings)
    assert set(spoken) == set(range(7))
    assert max(spoken.values()) - min(spoken.values()) <= 1


@pytest.mark.parametrize(("count", "spread_s"), [(0, 1.0), (1, -1.0)])
def test_what_makes_no_sense_is_refused(count: int, spread_s: float) -> None:
    with pytest.raises(ValueError, match="allowed"):
        plan_starts(count, spread_s, SeededRng(1))
    with pytest.raises(ValueError, match="allowed"):
        TurnPlans(0, Manners(), SeededRng(1))
