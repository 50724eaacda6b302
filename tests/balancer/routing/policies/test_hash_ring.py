"""The ring: a newcomer takes its share and nothing else moves, whoever leaves gives back its own alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.routing.policies.hash_ring import HashRing, hash_of

KEYS = [f"session-{number}" for number in range(1500)]


def owners(ring: HashRing) -> dict[str, int]:
    return {key: next(ring.walk(key)) for key in KEYS}


def ring_of(*numbers: int, nodes: int = 200) -> HashRing:
    ring = HashRing(nodes)
    ring.set({f"r{number}": number for number in numbers})
    return ring


@pytest.mark.parametrize("count", [1, 4, 19])
def test_a_newcomer_takes_about_its_share_and_only_it(count: int) -> None:
    ring = ring_of(*range(count))
    before = owners(ring)
    ring.set({f"r{number}": number for number in range(count + 1)})
    after = owners(ring)
    moved = [key for key in KEYS if before[key] != after[key]]
    assert {after[key] for key in moved} == {count}
    assert len(moved) / len(KEYS) == pytest.approx(1 / (count + 1), rel=0.35)
    ring.set({f"r{number}": number for number in range(count)})
    assert owners(ring) == before


def test_a_ring_that_grew_is_the_one_that_was_made_whole() -> None:
    grown = ring_of(3)
    for some in ((3, 1), (3, 1, 7, 2), (3, 7, 2), (3, 7, 2, 1)):
        grown.set({f"r{number}": number for number in some})
    assert owners(grown) == owners(ring_of(3, 7, 2, 1))


def test_another_slot_of_the_same_runtime_moves_no_key() -> None:
    ring = ring_of(0, 1, 2)
    before = owners(ring)
    ring.set({"r0": 10, "r1": 1, "r2": 2})
    assert owners(ring) == {key: 10 if owner == 0 else owner for key, owner in before.items()}


@given(st.sets(st.integers(0, 30), max_size=12), st.text(max_size=20))
def test_a_walk_meets_everybody_once(members: set[int], key: str) -> None:
    walked = list(ring_of(*members, nodes=20).walk(key))
    assert sorted(walked) == sorted(members)


def test_the_hash_is_the_same_for_ever_and_bounds_hold() -> None:
    assert hash_of("session-1") == 0xAE49BD2CD463E7AC
    for nodes in (0, 100_001):
        with pytest.raises(ValueError, match=f"virtual_nodes is {nodes}; allowed: 1 to 100000"):
            HashRing(nodes)
