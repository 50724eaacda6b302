"""`admitted_upto`: the contiguous part of what was settled, for each balancer life."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.primitives.load_snapshot import AdmittedUpto
from runtime.session.settlement import PlacementRef, Settlements


@given(st.permutations(list(range(1, 12))), st.integers(0, 11))
def test_any_order_ends_in_the_same_count(order: list[int], missing: int) -> None:
    settlements = Settlements()
    for number in order:
        if number != missing:
            settlements.settle(PlacementRef("b", 1, number))
    upto = settlements.admitted_upto()[0].placement_number
    assert upto == (missing - 1 if missing else 11)
    settlements.settle_below("b", 1, missing + 1)
    assert settlements.admitted_upto() == (AdmittedUpto("b", 1, 11),)


def test_a_new_life_starts_anew_and_the_old_one_is_ignored() -> None:
    settlements = Settlements()
    settlements.settle(PlacementRef("b", 1, 1))
    settlements.settle(PlacementRef("b", 2, 1))
    settlements.settle(PlacementRef("b", 1, 2))
    assert settlements.admitted_upto() == (AdmittedUpto("b", 2, 1),)


def test_balancers_are_bounded() -> None:
    settlements = Settlements(limit=2)
    for name in "abc":
        settlements.settle(PlacementRef(name, 1, 1))
    assert [upto.balancer_id for upto in settlements.admitted_upto()] == ["b", "c"]


def test_number_zero_is_no_placement() -> None:
    settlements = Settlements()
    settlements.settle(PlacementRef("b", 1, 0))
    assert settlements.admitted_upto() == (AdmittedUpto("b", 1, 0),)
