"""Own placements that the report does not contain: exact, and exactly zero in the end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from balancer.capacity.in_flight import InFlight


def test_numbers_run_from_one_and_a_decision_is_visible_at_once() -> None:  # bug B19
    flight = InFlight()
    assert (flight.count, flight.oldest_open) == (0, 1)
    assert [flight.open(), flight.open(), flight.open()] == [1, 2, 3]
    assert (flight.count, flight.oldest_open) == (3, 1)
    assert flight.settle(2)
    assert not flight.settle(2)
    assert (flight.count, flight.oldest_open) == (2, 1)
    assert flight.settle_upto(2) == 1
    assert (flight.count, flight.oldest_open) == (1, 3)
    assert flight.settle_upto(99) == 1
    assert (flight.count, flight.oldest_open) == (0, 4)


@given(st.lists(st.one_of(st.just("open"), st.integers(0, 30), st.tuples(st.just("upto"), st.integers(0, 30))), max_size=60))
def test_any_order_of_news_never_goes_negative_and_settles_to_zero(steps: list[object]) -> None:
    flight = InFlight()
    opened = 0
    for step in steps:
        before = flight.count
        if step == "open":
            opened = flight.open()
            assert flight.count == before + 1
        elif isinstance(step, int):
            assert flight.settle(step) == (flight.count < before)
        elif isinstance(step, tuple):
            flight.settle_upto(step[1])
        assert 0 <= flight.count <= opened
        assert flight.oldest_open <= opened + 1
    flight.settle_upto(opened)
    assert flight.count == 0
    assert flight.oldest_open == opened + 1
