"""Prices: a preference while there is room, nothing when it gets full, never a refusal (requirement R7)."""

from __future__ import annotations

import doctest
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.capacity.effective_capacity import CapacityRule
from balancer.routing import cost
from balancer.routing.cost import CostRule, pour_by_price
from balancer.routing.load_rule import LoadRule
from balancer.routing.request import PlacementRequest
from balancer.routing.runtime_facts import RuntimeFacts
from runtime.primitives.load_snapshot import CostClass
from runtime.primitives.rng import SeededRng
from tests.balancer.support.fleets import NOW, Told, fleet, router


def test_the_examples_hold() -> None:
    assert doctest.testmod(cost).failed == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"spot": 0.0}, "cost_spot is 0.0; allowed: 0.01 to 100"),
        ({"owned": float("nan")}, "cost_owned is nan"),
        ({"full_below": 0.9}, "0.9 and 0.8"),
    ],
)
def test_an_impossible_rule_is_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CostRule(**changes)


def filled(start: float, until: int, seed: int = 3) -> dict[str, float]:
    """How full each of three runtimes is after sessions that begin at `start` of the capacity were placed up to `until`."""
    classes = {"owned": CostClass.OWNED, "dear": CostClass.ON_DEMAND, "spot": CostClass.SPOT}
    view = fleet(
        *(Told(name, active=int(100 * start), hard_limit=100) for name in classes),
        rule=LoadRule(CapacityRule(cold_allowance=100_000)),
    )
    for name, each in classes.items():
        slot = view.slot_of(name)
        assert slot is not None
        facts = view.facts(slot)
        view.put(RuntimeFacts(name, 1, facts.state, "", 100, facts.agents, facts.abilities, facts.region, facts.version, each))
    view.columns.effective[:3] = 100.0
    view.columns.is_capped[:3] = False
    one, rng = router(), SeededRng(seed)
    for number in range(until - 3 * int(100 * start)):
        view.columns.effective[:3] = 100.0  # learned capacity is another test's matter
        view.columns.is_capped[:3] = False
        candidate = one.decide(PlacementRequest(str(number)), view, NOW, rng).candidates[0]
        view.place(candidate.slot, NOW)
    return {name: view.columns.estimate.item(view.slot_of(name) or 0) / 100 for name in classes}


def test_cheap_ones_are_filled_higher_while_there_is_room() -> None:
    half_empty = filled(0.0, 105)
    assert half_empty["spot"] == pytest.approx(0.6, abs=0.05)
    assert half_empty["owned"] == pytest.approx(0.3, abs=0.05)
    assert half_empty["dear"] == pytest.approx(0.15, abs=0.05)


def test_none_is_preferred_beyond_the_thresholds() -> None:
    full = filled(0.8, 270)
    assert max(full.values()) - min(full.values()) <= 0.03
    rather_full = filled(0.0, 190)
    assert rather_full["spot"] <= 0.82


def test_one_price_is_no_price() -> None:
    counts: Counter[str] = Counter()
    view = fleet(*(Told(name, active=10, hard_limit=100) for name in "ab"))
    view.columns.cost[:2] = 2.0
    one, rng = router(), SeededRng(1)
    for number in range(400):
        counts[one.decide(PlacementRequest(str(number)), view, NOW, rng).candidates[0].runtime_id] += 1
    assert abs(counts["a"] - 200) < 60


loads = st.lists(st.tuples(st.floats(0, 50), st.floats(1, 50), st.sampled_from([0.5, 1.0, 2.0])), min_size=1, max_size=20)


@given(loads, st.floats(0.5, 20), st.floats(0, 1.2))
def test_gaps_are_sound_and_nobody_is_filled_beyond_what_fits(
    rows: list[tuple[float, float, float]], volume: float, fleet_load: float
) -> None:
    load, capacity, price = (np.array(column) for column in zip(*rows, strict=True))
    to, gaps = pour_by_price(load, capacity, price, volume, fleet_load, CostRule())
    assert np.isfinite(gaps).all()
    assert (gaps >= 0.0).all()
    assert (to <= capacity + 1e-9).all()
    assert (load + gaps <= np.maximum(load, capacity) + 1e-9).all()
    assert gaps.sum() <= volume + 1e-6
