"""Whose machine is slow and whose callers are dear, told apart from chance and from what all have in common."""

from __future__ import annotations

import numpy as np
import pytest

from balancer.capacity.cost_factors import CostFactors
from balancer.capacity.cpu_curve import Curve
from tests.balancer.support.chance import Chance

CURVE = Curve(0.02, 0.01, 0.0, 60.0, 1000.0)
SIZE = 40


class Windows:
    """A fleet of 40 with 30 sessions each, measured every 10 s."""

    def __init__(self, seed: int = 1) -> None:
        self.factors = CostFactors(SIZE, mean_life_s=180.0)
        self.slots = np.arange(SIZE)
        self.sessions = np.full(SIZE, 30.0)
        self.slowness = np.ones(SIZE)
        self.dearness = np.ones(SIZE)
        self.tide = 1.0
        self.now_s = 0.0
        self.chance = Chance(seed)

    def run(self, windows: int, renew: float = 0.0) -> None:
        """`renew`: spread of what each runtime's callers cost, which changes slowly as they come and go."""
        keep = np.exp(-10.0 / 180.0)
        for _ in range(windows):
            self.now_s += 10.0
            if renew:
                fresh = renew * np.sqrt(1.0 - keep * keep) * self.chance.normal(SIZE)
                self.dearness = np.clip(1.0 + keep * (self.dearness - 1.0) + fresh, 0.2, 5.0)
            noise = 1.0 + np.sqrt(0.08 / self.sessions) * self.chance.normal(SIZE)
            x = self.sessions * self.slowness * self.dearness * self.tide * noise
            self.factors.measure(self.slots, self.sessions, CURVE.utilisation(np.maximum(x, 0.0)), CURVE, self.now_s)


@pytest.mark.parametrize("seed", range(4))
def test_a_machine_s_speed_is_found_to_a_twentieth(seed: int) -> None:
    fleet = Windows(seed)
    fleet.slowness[:4] = [2.0, 0.5, 1.4, 4.0]
    fleet.slowness[4:] = (SIZE - fleet.slowness[:4].sum()) / (SIZE - 4)  # a curve is of the mean machine
    fleet.run(64)
    # Against the ordinary machines: what all have in common is the curve's affair.
    found = fleet.factors.speed[:4] / fleet.factors.speed[4:].mean()
    np.testing.assert_allclose(found / (fleet.slowness[:4] / fleet.slowness[4]), 1.0, atol=0.05)


def test_like_machines_and_like_callers_stay_at_one() -> None:
    fleet = Windows(2)
    fleet.run(100)
    assert np.abs(fleet.factors.speed - 1.0).max() <= 0.05
    assert (fleet.factors.speed == 1.0).mean() > 0.9
    assert fleet.factors.mix.tolist() == [1.0] * SIZE
    assert fleet.factors.mix_variance == 0.0
    assert fleet.factors.session_variance == pytest.approx(0.08, rel=0.2)


def test_dear_callers_are_found() -> None:
    fleet = Windows(3)
    fleet.run(150, renew=0.25)
    assert fleet.factors.mix_variance > 0.2
    errors = fleet.factors.mix * fleet.factors.speed - fleet.dearness
    assert np.sqrt(np.square(errors).mean()) < 0.6 * np.sqrt(np.square(fleet.dearness - 1.0).mean())
    assert np.corrcoef(fleet.factors.mix * fleet.factors.speed, fleet.dearness)[0, 1] > 0.85


def test_what_all_have_in_common_is_nobody_s_cost() -> None:
    fleet = Windows(4)
    fleet.run(40)
    fleet.tide = 1.6  # all talk at once
    fleet.run(30)
    assert np.abs(fleet.factors.speed - 1.0).max() <= 0.06
    assert np.abs(fleet.factors.mix - 1.0).max() <= 0.06


@pytest.mark.parametrize("tide", [0.25, 4.0])
def test_a_tide_that_turns_is_followed_within_a_few_reports(tide: float) -> None:
    """Reports come one after another, so those who report first must not look dear for a round."""
    fleet = Windows(4)
    fleet.run(60)
    factors = fleet.factors
    for round_ in range(12):
        fleet.now_s += 10.0
        for first in range(0, SIZE, 4):
            slots = np.arange(first, first + 4)
            sessions = fleet.sessions[slots]
            noise = 1.0 + np.sqrt(0.08 / sessions) * fleet.chance.normal(4)
            x = sessions * (tide if round_ < 6 else 1.0) * noise
            factors.measure(slots, sessions, CURVE.utilisation(x), CURVE, fleet.now_s + first / 4.0)
    assert np.abs(factors.mix - 1.0).max() <= 0.05
    assert (factors.speed == 1.0).mean() > 0.9


def test_a_new_life_is_unknown_again_and_growing_keeps_what_is_known() -> None:
    fleet = Windows(5)
    fleet.slowness[0] = 2.0
    fleet.run(30)
    assert fleet.factors.speed[0] > 1.8
    fleet.factors.grow(2 * SIZE)
    assert fleet.factors.speed[0] > 1.8
    assert fleet.factors.speed[SIZE:].tolist() == [1.0] * SIZE
    fleet.factors.forget(0)
    assert (fleet.factors.speed[0], fleet.factors.mix[0], fleet.factors.sessions[0]) == (1.0, 1.0, 0.0)


def test_idle_and_nearly_empty_runtimes_tell_nothing() -> None:
    factors = CostFactors(2, 180.0)
    factors.measure(np.array([0, 1]), np.array([1.0, 10.0]), np.array([0.9, 0.021]), CURVE, 10.0)
    assert factors.sessions.tolist() == [0.0, 0.0]


def test_speeds_are_relative_to_their_mean() -> None:
    factors = CostFactors(3, 180.0)
    factors.speed[:] = [1.0, 2.0, 3.0]
    factors.centre(np.array([0, 1, 2]))
    assert factors.speed.tolist() == [0.5, 1.0, 1.5]
    factors.centre(np.array([], np.intp))


def test_a_liar_is_not_trusted_and_what_all_show_is() -> None:
    fleet = Windows(5)
    fleet.run(20)
    x = fleet.sessions.copy()
    x[0] = 30.0 * 12.0  # a stuck meter
    x[1] = 30.0 * 2.5  # a stuck thread
    trust = fleet.factors.trust(fleet.slots, fleet.sessions, CURVE.utilisation(x), CURVE)
    assert trust[0] == 0.0
    assert trust[1] < 0.25
    assert (trust[2:] > 0.9).all()
    fleet.tide = 2.0
    fleet.run(60)
    trust = fleet.factors.trust(fleet.slots, fleet.sessions, CURVE.utilisation(2.0 * fleet.sessions), CURVE)
    assert (trust > 0.9).all()
