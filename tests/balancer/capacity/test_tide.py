"""What all have in common: a mean of a round while it stands, the last few reports as soon as it turns, and no liar's."""

from __future__ import annotations

import numpy as np
import pytest

from balancer.capacity.tide import Tide
from tests.balancer.support.chance import Chance

RUNTIMES = 100


def rounds(tide: Tide, level: float, reports: int, chance: Chance, batch: int = 5) -> None:
    for _ in range(reports // batch):
        tide.follow(level * (1.0 + 0.05 * chance.normal(batch)), RUNTIMES)


def test_where_it_stands_it_is_the_mean_of_a_round() -> None:
    tide, chance = Tide(), Chance(1)
    rounds(tide, 1.0, 1000, chance)
    assert tide.level == pytest.approx(1.0, abs=0.02)
    assert tide.middle == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("level", [0.3, 3.0])
def test_where_it_turns_half_a_round_shows_it(level: float) -> None:
    tide, chance = Tide(), Chance(2)
    rounds(tide, 1.0, 300, chance)
    rounds(tide, level, 50, chance)
    assert tide.level == pytest.approx(level, rel=0.25)  # a mean of the round would be half way


def test_machines_whose_speed_is_not_known_are_no_turn_of_the_tide() -> None:
    tide, chance = Tide(), Chance(3)
    for _ in range(200):
        tide.follow(np.array([0.43, 0.86, 1.7]) * (1.0 + 0.05 * chance.normal(3)), RUNTIMES)
        assert 0.8 < tide.level < 1.2


def test_a_liar_moves_the_mean_a_little_and_the_middle_not_at_all() -> None:
    tide, chance = Tide(), Chance(4)
    for _ in range(200):
        relative = 1.0 + 0.05 * chance.normal(10)
        relative[0] = 100.0
        tide.follow(relative, 10)
    assert tide.level < 1.2
    assert tide.middle == pytest.approx(1.0, abs=0.03)


def test_it_never_falls_to_nothing() -> None:
    tide = Tide()
    for _ in range(50):
        tide.follow(np.zeros(5), 5)
    assert tide.level == 0.1
