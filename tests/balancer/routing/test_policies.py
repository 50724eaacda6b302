"""The simple policies, each by what it promises."""

from __future__ import annotations

from collections import Counter

import numpy as np

from balancer.routing.fleet_view import FleetView, RuntimeRow
from balancer.routing.policies import POLICIES
from runtime.primitives.rng import SeededRng


def view_of(counts: dict[str, int]) -> FleetView:
    view = FleetView()
    for name, active in counts.items():
        view.put(RuntimeRow(name, 1, active=active, hard_limit=10, effective=10.0))
    return view


def chosen(policy_name: str, counts: dict[str, int], times: int) -> Counter[str]:
    view = view_of(counts)
    policy = POLICIES[policy_name]()
    rng = SeededRng(5)
    kept = np.arange(len(view))
    return Counter(view.row(policy.order(view, kept, 1, rng)[0]).runtime_id for _ in range(times))


def test_names_are_the_settings_names() -> None:
    assert all(make().name == name for name, make in POLICIES.items())


def test_round_robin_takes_turns_also_when_one_leaves() -> None:
    view = view_of({"c": 0, "a": 0, "b": 0})
    policy = POLICIES["round_robin"]()
    rng = SeededRng(1)
    seen = [view.row(policy.order(view, np.arange(3), 1, rng)[0]).runtime_id for _ in range(6)]
    assert Counter(seen) == {"a": 2, "b": 2, "c": 2}
    kept = np.array([index for index in range(3) if view.row(index).runtime_id != "b"])
    assert {view.row(policy.order(view, kept, 1, rng)[0]).runtime_id for _ in range(2)} == {"a", "c"}


def test_random_is_even_and_least_sessions_counts_reports_only() -> None:
    even = chosen("random", {"a": 9, "b": 0, "c": 3}, 3000)
    assert all(abs(times - 1000) < 150 for times in even.values())
    assert set(chosen("least_sessions", {"a": 9, "b": 1, "c": 1}, 200)) == {"b", "c"}
