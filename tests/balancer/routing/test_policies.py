"""The simple policies, each by what it promises."""

from __future__ import annotations

from collections import Counter

from balancer.routing.policies import POLICIES
from runtime.primitives.rng import SeededRng
from tests.balancer.support.fleets import ASK, NOW, Told, fleet, router


def chosen(policy: str, counts: dict[str, int], times: int) -> Counter[str]:
    view = fleet(*(Told(name, active=active, hard_limit=10) for name, active in counts.items()))
    one, rng = router(policy), SeededRng(5)
    return Counter(one.decide(ASK, view, NOW, rng).candidates[0].runtime_id for _ in range(times))


def test_names_are_the_settings_names() -> None:
    assert all(make().name == name for name, make in POLICIES.items())


def test_round_robin_takes_turns_also_when_one_leaves() -> None:
    view = fleet(*(Told(name) for name in "cab"))
    one, rng = router("round_robin"), SeededRng(1)
    seen = [one.decide(ASK, view, NOW, rng).candidates[0].runtime_id for _ in range(6)]
    assert Counter(seen) == {"a": 2, "b": 2, "c": 2}
    view.remove("b")
    assert {one.decide(ASK, view, NOW, rng).candidates[0].runtime_id for _ in range(2)} == {"a", "c"}


def test_random_is_even_and_least_sessions_counts_reports_only() -> None:
    even = chosen("random", {"a": 9, "b": 0, "c": 3}, 3000)
    assert all(abs(times - 1000) < 150 for times in even.values())
    assert set(chosen("least_sessions", {"a": 9, "b": 1, "c": 1}, 200)) == {"b", "c"}
