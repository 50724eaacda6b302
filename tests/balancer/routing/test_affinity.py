"""Affinity: where a session belongs, bounded and forgetful, and what scaling out moves (requirement R5)."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.routing.affinity import KEPT_NS, Affinity
from balancer.routing.request import PlacementRequest
from runtime.primitives.load_snapshot import RuntimeState
from runtime.primitives.rng import SeededRng
from tests.balancer.support.fleets import NOW, Told, decide, fleet, names, router


def test_a_session_is_bound_while_it_lives_and_a_day_after() -> None:
    affinity = Affinity()
    affinity.lives("call", "a", 0)
    assert affinity.runtime_of("call", 10 * KEPT_NS) == "a"
    affinity.ended("call", "a", 10)
    assert affinity.runtime_of("call", KEPT_NS + 10) == "a"
    assert affinity.runtime_of("call", KEPT_NS + 11) == ""
    affinity.lives("other", "b", KEPT_NS + 11)
    affinity.ended("other", "b", KEPT_NS + 11)
    assert len(affinity) == 1  # what expired is gone for good


def test_who_moved_belongs_where_it_lives_now() -> None:
    affinity = Affinity()
    affinity.lives("call", "old", 0)
    affinity.lives("call", "new", 1)  # moved in before it is said to have moved out
    affinity.ended("call", "old", 2)
    assert (affinity.runtime_of("call", 3), affinity.live) == ("new", 1)
    affinity.placed("call", "third", 4)  # a place held elsewhere moves nobody yet
    assert affinity.runtime_of("call", 5) == "new"


def test_a_place_that_nobody_took_is_forgotten_like_an_end() -> None:
    affinity = Affinity(limit=2)
    affinity.placed("a", "r", 0)
    affinity.placed("b", "r", 1)
    affinity.lives("a", "r", 2)
    affinity.placed("c", "r", 3)
    assert [affinity.runtime_of(each, 4) for each in "abc"] == ["r", "", "r"]
    with pytest.raises(ValueError, match="limit is 0"):
        Affinity(limit=0)


happenings = st.lists(
    st.tuples(st.sampled_from(["placed", "lives", "ended"]), st.integers(0, 12), st.sampled_from("rs"), st.integers(0, 5)),
    max_size=200,
)


@given(happenings, st.integers(1, 8))
def test_memory_is_bounded_and_no_live_one_leaves_before_an_ended_one(steps: list[tuple[str, int, str, int]], limit: int) -> None:
    affinity, now = Affinity(limit, kept_ns=10), 0
    live: dict[str, str] = {}
    for what, session, runtime, later in steps:
        now += later
        name = f"s{session}"
        getattr(affinity, what)(name, runtime, now)
        if what == "lives":
            live.pop(name, None)
            live[name] = runtime
        elif what == "ended" and live.get(name) == runtime:
            del live[name]
        while len(live) > limit:
            live.pop(next(iter(live)))  # bound longest ago
        assert len(affinity) <= limit
        assert affinity.live == len(live)
        assert all(affinity.runtime_of(each, now) == live[each] for each in live)


@pytest.mark.parametrize("policy", ["session_aware", "round_robin", "consistent_hash"])
def test_a_caller_returns_and_health_comes_first(policy: str) -> None:
    view = fleet(*(Told(name, active=4 if name == "c" else 0) for name in "abc"))
    view.affinity.lives("call", "c", NOW)
    view.affinity.ended("call", "c", NOW)
    back = decide(view, policy=policy)
    assert names(back)[0] == "c"
    assert len(set(names(back))) == 3
    assert back.candidates[0].enough == float("inf")  # no second look
    assert back.reason.startswith("returns to its runtime, one of 3 with room: 4+0+0 of 8")
    for change in ({"state": RuntimeState.DRAINING}, {"ineligible": "silent"}, {"active": 8}, {"overload": 2}):
        sick = fleet(Told("a"), Told("c", **change))
        sick.affinity.lives("call", "c", NOW)
        away = decide(sick, policy=policy)
        assert names(away) == ["a"]
        assert "for its own c has no place, of 1 with room" in away.reason
    gone = fleet(Told("a"))
    gone.affinity.lives("call", "c", NOW)
    assert names(decide(gone, policy=policy)) == ["a"]


def test_a_resume_skips_the_overload_of_the_fleet() -> None:
    view = fleet(Told("a", active=97, hard_limit=100), Told("b", active=97, hard_limit=100))
    assert decide(view).is_overloaded
    resumed = decide(view, PlacementRequest("call", is_resume=True))
    assert not resumed.is_overloaded
    assert len(names(resumed)) == 2


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 1000))
def test_scaling_out_moves_no_live_session(before: int, new: int, seed: int) -> None:  # requirement R5: under 0.1 %
    view = fleet(*(Told(f"r{n}", hard_limit=100) for n in range(before)))
    one, rng = router(), SeededRng(seed)
    where = {}
    for n in range(40):
        where[f"s{n}"] = one.decide(PlacementRequest(f"s{n}"), view, NOW, rng).candidates[0].runtime_id
        view.affinity.lives(f"s{n}", where[f"s{n}"], NOW)
    for n in range(before, before + new):
        Told(f"r{n}", hard_limit=100).tell(view)
    back = {name: one.decide(PlacementRequest(name), view, NOW, rng).candidates[0].runtime_id for name in where}
    assert back == where


@pytest.mark.parametrize(("before", "new"), [(10, 1), (20, 5), (3, 1)])
def test_the_hash_moves_about_its_share_and_only_to_the_new(before: int, new: int) -> None:  # requirement R5
    keys = [f"session-{n}" for n in range(2000)]
    one, rng = router("consistent_hash"), SeededRng(1)
    view = fleet(*(Told(f"r{n}", hard_limit=100) for n in range(before)))
    was = {key: one.decide(PlacementRequest(key), view, NOW, rng).candidates[0].runtime_id for key in keys}
    for n in range(before, before + new):
        Told(f"new{n}", hard_limit=100).tell(view)
    now = {key: one.decide(PlacementRequest(key), view, NOW, rng).candidates[0].runtime_id for key in keys}
    moved = {key for key in keys if was[key] != now[key]}
    share = new / (before + new)
    assert len(moved) / len(keys) <= 1.2 * share + 0.02
    assert all(now[key].startswith("new") for key in moved)


def test_the_hash_bounds_the_load_of_each() -> None:
    view = fleet(*(Told(f"r{n}", hard_limit=1000) for n in range(8)))
    one, rng = router("consistent_hash"), SeededRng(1)
    held: Counter[str] = Counter()
    for n in range(1600):
        chosen = one.decide(PlacementRequest(f"session-{n}"), view, NOW, rng).candidates[0]
        view.place(chosen.slot, NOW)
        held[chosen.runtime_id] += 1
        mean = held.total() / 8
        assert max(held.values()) <= 1.25 * mean + 2
