"""What a control remembers of relays that come, go, and come back."""

from __future__ import annotations

from balancer.relays.attached_relays import AttachedRelays
from runtime.primitives.clock import NS_PER_S


class Held:
    """Stands for the placer."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def relays(self) -> AttachedRelays:
        return AttachedRelays(self.ids.__setitem__, self.ids.__delitem__)


def test_a_relay_that_comes_back_in_time_keeps_what_it_lists_and_nothing_else() -> None:
    held = Held()
    relays = held.relays()
    relay = relays.attend("one", 1, "", 0)
    for name in ("a", "b"):
        relays.held(relay, name, 1)
    relays.listed(relay)
    relays.lost(relay, 1 * NS_PER_S)
    assert (relays.attached(), relays.holder("a")) == ([], None)  # nobody can be asked to move it
    assert held.ids == {"a": 1, "b": 1}
    assert relays.tend(10 * NS_PER_S) == []
    assert relays.attend("one", 1, "", 10 * NS_PER_S) is relay
    relays.held(relay, "a", 4)
    relays.held(relay, "c", 1)
    assert held.ids == {"a": 4, "b": 1, "c": 1}
    relays.listed(relay)
    assert held.ids == {"a": 4, "c": 1}
    assert relays.tend(60 * NS_PER_S) == []
    assert relays.holder("c") is relay


def test_what_a_relay_held_that_does_not_come_back_is_let_go() -> None:
    held = Held()
    relays = held.relays()
    relay = relays.attend("one", 1, "", 0)
    relays.held(relay, "a", 1)
    relays.lost(relay, 0)
    assert relays.tend(10 * NS_PER_S - 1) == []
    assert held.ids == {"a": 1}
    assert relays.tend(10 * NS_PER_S) == [relay]
    assert held.ids == {}
    assert relays.attend("one", 1, "", 11 * NS_PER_S) is not relay


def test_a_session_that_two_relays_hold_is_let_go_by_the_last() -> None:
    held = Held()
    relays = held.relays()
    first, second = relays.attend("one", 1, "", 0), relays.attend("two", 2, "", 0)
    relays.held(first, "a", 1)
    relays.held(second, "a", 2)
    relays.let_go(first, "a")
    relays.let_go(first, "a")
    assert held.ids == {"a": 2}
    relays.let_go(second, "a")
    assert held.ids == {}


def test_numbers_are_those_of_the_relays_that_are_there() -> None:
    relays = Held().relays()
    two, one = relays.attend("two", 2, "host:2", 0), relays.attend("one", 1, "host:1", NS_PER_S)
    one.numbers, one.moves = {"relayed": 3.0}, {("planned", "moved"): 2}
    two.moves = {("planned", "moved"): 1, ("crash", "moved"): 5}
    assert relays.move_counts() == {("planned", "moved"): 3, ("crash", "moved"): 5}
    documents = relays.documents(3 * NS_PER_S)
    assert [each["relay_id"] for each in documents] == ["one", "two"]
    assert documents[0] == {"relay_id": "one", "operator": "host:1", "attached_s": 2.0, "held": 0, "numbers": {"relayed": 3.0}}
    relays.lost(two, 0)
    assert relays.move_counts() == {("planned", "moved"): 2}
