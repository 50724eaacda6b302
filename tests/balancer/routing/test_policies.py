"""The simple policies, each by what it promises."""

from __future__ import annotations

from collections import Counter

import pytest

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


def test_no_runtime_is_drawn_beyond_its_room_while_a_plan_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two plans nothing may be heard; what was drawn since then counts all the same."""
    for seed in range(50):
        view = fleet(*(Told(f"r{number}", hard_limit=10) for number in range(10)))
        monkeypatch.setattr(view.load, "volume", lambda _now_ns: 40.0)  # four to each
        one, rng = router("session_aware"), SeededRng(seed)
        drawn = Counter(one.decide(ASK, view, NOW, rng).candidates[0].runtime_id for _ in range(20))
        assert max(drawn.values()) <= 4


def test_of_equally_full_runtimes_the_one_to_which_a_session_is_less_is_drawn() -> None:
    view = fleet(Told("small", active=4, hard_limit=10), Told("large", active=20, hard_limit=50))
    one, rng = router("session_aware"), SeededRng(1)
    assert {one.decide(ASK, view, NOW, rng).candidates[0].runtime_id for _ in range(50)} == {"large"}
