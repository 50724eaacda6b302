"""The fleet's curve of CPU against sessions: found again from noisy reports, kept while nothing moves, never followed too far."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.capacity.cpu_curve import Curve, CurveFit
from tests.balancer.support.chance import Chance

TRUE = Curve(0.02, 0.0115, 0.00004, 60.0, 1.0)


def noisy(x: np.ndarray, chance: Chance, sd: float = 0.08) -> np.ndarray:
    """Talk and pause: the noise of one window falls with the root of the sessions."""
    spread = sd * (TRUE.utilisation(x) - TRUE.u0) / np.sqrt(np.maximum(x, 1.0))
    noisy_u: np.ndarray = np.maximum(TRUE.utilisation(x) + spread * chance.normal(x.shape[0]), 0.0)
    return noisy_u


def learned(x: np.ndarray, seed: int = 1) -> CurveFit:
    fit, chance = CurveFit(), Chance(seed)
    for some in np.array_split(x, max(1, x.shape[0] // 20)):
        fit.learn(some, noisy(some, chance))
    return fit


@pytest.mark.parametrize("seed", range(5))
def test_a_known_curve_is_found_again(seed: int) -> None:
    x = np.concatenate((np.zeros(20), np.floor(Chance(seed).uniform(2.0, 60.0, 3000))))
    found = learned(x, seed).fit()
    assert found is not None
    at = np.array([5.0, 20.0, 40.0, 55.0])
    np.testing.assert_allclose(found.utilisation(at), TRUE.utilisation(at), rtol=0.04)
    assert found.u0 == pytest.approx(TRUE.u0, abs=0.01)
    assert 50.0 <= found.x_seen <= 60.0


def test_a_fleet_that_stands_still_does_not_flatten_it() -> None:
    chance = Chance(3)
    fit = learned(np.concatenate((np.zeros(10), chance.uniform(3.0, 45.0, 1500))))
    for _ in range(200):
        x = np.round(40.0 + 0.5 * chance.normal(100))
        fit.learn(x, noisy(x, chance, sd=0.3))
    found = fit.fit()
    assert found is not None
    at = np.array([6.0, 20.0, 40.0])
    np.testing.assert_allclose(found.utilisation(at), TRUE.utilisation(at), rtol=0.08)


def test_evenly_loaded_machines_of_different_speed_are_no_high_base() -> None:
    """All at the same CPU with 20, 40 and 80 sessions: a straight line through the points would be flat."""
    fit, chance = CurveFit(), Chance(4)
    for _ in range(50):
        sessions = np.array([20.0, 40.0, 80.0] * 10)
        fit.learn(sessions, 0.5 + 0.02 * chance.normal(30))
    found = fit.fit()
    assert found is not None
    assert found.u0 == 0.0
    assert found.k > 0.002
    assert found.g >= 0.0


def test_what_was_seen_does_not_shrink_while_reports_come_in() -> None:
    """Ten runtimes of different load report one after another: whoever is first at three reports is not all there is."""
    fit, loads = CurveFit(), np.array([4.0, 25.0, 20.0, 7.0, 14.0, 11.0, 17.0, 9.0, 2.0, 5.5])
    seen = []
    for _ in range(4):
        for x in loads:
            fit.learn(np.array([x]), np.array([0.02 + 0.01 * x]))
            curve = fit.fit()
            if curve is not None:
                seen.append(curve.x_seen)
    assert len(seen) > 20
    assert min(seen) >= 20.0


def test_nothing_is_fitted_to_little_or_to_idle_runtimes() -> None:
    fit = CurveFit()
    assert fit.fit() is None
    fit.learn(np.array([10.0] * 9), np.array([0.1] * 9))
    assert fit.fit() is None
    idle = CurveFit()
    idle.learn(np.zeros(100), np.full(100, 0.02))
    assert idle.fit() is None


samples = st.lists(st.tuples(st.floats(0.0, 200.0), st.floats(0.0, 1.5)), min_size=1, max_size=200)


@given(samples, st.floats(0.2, 4.0), st.floats(0.0, 3.0))
def test_no_part_is_negative_and_nothing_is_followed_beyond_its_reach(
    rows: list[tuple[float, float]], speed: float, z: float
) -> None:
    fit = CurveFit()
    x, u = (np.array(column) for column in zip(*rows, strict=True))
    fit.learn(x, u)
    found = fit.fit()
    if found is None:
        return
    assert min(found.u0, found.k, found.g) >= 0.0
    assert found.x_seen <= x.max() + 1e-9
    assert found.reach == max(found.x_seen + 4.0, 1.25 * found.x_seen)
    capacity = found.capacities(np.array([speed]), 0.8, z, 0.5, found.reach)[0]
    assert 0.0 <= capacity <= found.reach / speed + 1e-9


@given(st.floats(0.3, 3.0), st.floats(0.0, 3.0))
def test_a_capacity_is_the_most_that_fits(speed: float, z: float) -> None:
    reach = 1000.0
    capacity = TRUE.capacities(np.array([speed]), 0.8, z, 0.5, reach)[0]

    def used(n: float) -> float:
        x = speed * n
        slope = TRUE.k + TRUE.g * x
        return float(TRUE.u0 + slope * x + z * slope * speed * np.sqrt(0.5 * n))

    assert used(capacity - 0.01) <= 0.8 + 1e-6
    assert used(capacity + 0.01) >= 0.8 - 1e-6


@given(st.floats(0.0, 300.0))
def test_sessions_and_utilisation_are_inverse(x: float) -> None:
    for curve in (TRUE, Curve(0.1, 0.02, 0.0, 10.0, 1.0)):
        assert curve.sessions_at(curve.utilisation(np.array([x])))[0] == pytest.approx(x, abs=1e-6)
    assert TRUE.sessions_at(np.array([0.0]))[0] == 0.0
