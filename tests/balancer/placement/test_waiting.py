"""The waiting queue: order, bounds, places; one model against which every sequence of steps is checked."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.placement import waiting
from balancer.placement.waiting import Waiter, WaitingQueue, WaitingRule
from balancer.routing.request import Priority


def names(queue: WaitingQueue) -> list[str]:
    return [each.session_id for each in queue.waiters()]


def joined(queue: WaitingQueue, name: str, priority: Priority = Priority.NORMAL, needs: str = "") -> Waiter:
    waiter, _ = queue.join(name, priority, needs, 0)
    assert waiter is not None
    return waiter


def test_the_examples_hold() -> None:
    assert doctest.testmod(waiting).failed == 0


def test_priority_then_the_order_of_arrival() -> None:
    queue = WaitingQueue(10)
    for name, priority in (("n1", "normal"), ("l1", "low"), ("h1", "high"), ("n2", "normal"), ("h2", "high"), ("l2", "low")):
        joined(queue, name, Priority(priority))
    assert names(queue) == ["h1", "h2", "n1", "n2", "l1", "l2"]
    assert [queue.place_of(each) for each in queue.waiters()] == [1, 2, 3, 4, 5, 6]
    assert [queue.place_for(each) for each in (Priority.HIGH, Priority.NORMAL, Priority.LOW)] == [3, 5, 7]


def test_a_full_queue_turns_away_all_but_those_who_come_before_the_last() -> None:
    queue = WaitingQueue(2)
    low, normal = joined(queue, "low", Priority.LOW), joined(queue, "normal")
    assert queue.join("another", Priority.LOW, "", 0) == (None, None)
    waiter, put_out = queue.join("high", Priority.HIGH, "", 0)
    assert waiter is not None
    assert put_out == low
    assert low not in queue
    assert not queue.leave(low)
    assert queue.join("third", Priority.NORMAL, "", 0) == (None, None)
    assert queue.leave(normal)
    assert names(queue) == ["high"]
    assert WaitingQueue(0).join("nobody", Priority.HIGH, "", 0) == (None, None)


def test_heads_are_the_first_of_each_kind_of_needs() -> None:
    queue = WaitingQueue(100)
    for name, needs in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("c1", "c"), ("b2", "b")):
        joined(queue, name, needs=needs)
    assert [each.session_id for each in queue.heads()] == ["a1", "b1", "c1"]
    assert [each.session_id for each in queue.heads(2)] == ["a1", "b1"]
    assert (queue.waits("a"), queue.waits("z")) == (True, False)
    queue.leave(queue.heads()[2])
    assert not queue.waits("c")


@pytest.mark.parametrize("rule", [(-1, 10.0), (1, 0.0), (1, float("inf")), (1, float("nan"))])
def test_an_impossible_rule_is_refused(rule: tuple[int, float]) -> None:
    with pytest.raises(ValueError, match="allowed"):
        WaitingRule(*rule)


steps = st.lists(st.tuples(st.sampled_from(Priority), st.integers(0, 3), st.integers(-1, 20)), max_size=80)


@given(steps, st.integers(0, 6))
def test_every_sequence_keeps_the_order_and_the_bound(plan: list[tuple[Priority, int, int]], places: int) -> None:
    queue, rank = WaitingQueue(places), {Priority.HIGH: 0, Priority.NORMAL: 1, Priority.LOW: 2}
    inside: list[Waiter] = []
    for number, (priority, needs, leaves) in enumerate(plan):
        would_stand = queue.place_for(priority)
        waiter, put_out = queue.join(str(number), priority, needs, number)
        if put_out is not None:
            assert put_out == inside.pop()
            assert rank[put_out.priority] > rank[priority]
        if waiter is None:
            assert len(inside) == places
            assert not inside or rank[inside[-1].priority] <= rank[priority]
        else:
            inside = sorted([*inside, waiter], key=lambda each: (rank[each.priority], each.number))
            assert queue.place_of(waiter) == would_stand
        if 0 <= leaves < len(inside):
            assert queue.leave(inside.pop(leaves))
        assert list(queue.waiters()) == inside
        assert len(queue) <= places
        assert {each.needs for each in inside} == {needs for needs in range(4) if queue.waits(needs)}
        heads = queue.heads()
        assert heads == [each for place, each in enumerate(inside) if each.needs not in {one.needs for one in inside[:place]}]
