"""Whose keys open tickets."""

from __future__ import annotations

from runtime.session.key_ring import KeyRing
from runtime.wire.signed_tickets import TicketKey


def _key(name: str) -> TicketKey:
    return TicketKey(name, name.encode().ljust(32, b"-"))


def test_configured_keys_are_the_only_ones() -> None:
    ring = KeyRing([_key("now"), _key("before")])
    ring.told("balancer-1", [_key("told")])
    assert ring.ids == ["now", "before"]


def test_told_keys_of_each_balancer_hold_and_those_of_its_life_before() -> None:
    ring = KeyRing()
    assert ring.ids == []
    ring.told("balancer-1", [_key("one")])
    ring.told("balancer-2", [_key("two")])
    ring.told("balancer-1", [_key("one")])  # enrolled anew, the same life
    assert set(ring.ids) == {"one", "two"}
    ring.told("balancer-1", [_key("one-again")])
    assert set(ring.ids) == {"one", "two", "one-again"}
    ring.told("balancer-1", [_key("third")])
    assert set(ring.ids) == {"two", "one-again", "third"}


def test_a_balancer_that_tells_none_takes_none_away() -> None:
    ring = KeyRing()
    ring.told("balancer-1", [_key("one")])
    ring.told("balancer-1", [])
    assert ring.ids == ["one"]


def test_the_ring_is_bounded() -> None:
    ring = KeyRing()
    for number in range(100):
        ring.told(f"balancer-{number}", [_key(f"key-{number}")])
    assert len(ring.ids) == 64
    assert "key-99" in ring.ids
    assert "key-0" not in ring.ids
