"""Policies by name, with what configuration tells them."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from balancer.app.settings import BalancerSettings
from balancer.routing.policies import POLICIES
from balancer.routing.policies.consistent_hash import VIRTUAL_NODES
from balancer.routing.policies.weighted_remaining import Remaining
from balancer.routing.policy_options import PolicyOptions, UnknownPolicy
from balancer.routing.request import PlacementRequest
from balancer.routing.router import Router
from runtime.primitives.clock import NS_PER_S
from runtime.primitives.errors import SettingError
from runtime.primitives.rng import SeededRng
from tests.balancer.support.fleets import NOW, Told, fleet


@pytest.mark.parametrize("name", POLICIES)
def test_every_name_of_the_setting_makes_that_policy(name: str) -> None:
    assert BalancerSettings(policy=name).policy_options().make(name).name == name


def test_an_unknown_name_is_answered_with_the_allowed_ones() -> None:
    with pytest.raises(UnknownPolicy, match=r"policy is 'magic'; allowed: session_aware, round_robin") as refused:
        PolicyOptions().make("magic")
    assert refused.value.allowed == tuple(POLICIES)


@pytest.mark.parametrize("nodes", VIRTUAL_NODES)
def test_more_virtual_nodes_share_more_evenly(nodes: int) -> None:
    view = fleet(*(Told(f"r{number}", hard_limit=10_000) for number in range(8)))
    one = Router(PolicyOptions(nodes).make("consistent_hash"), 3 * NS_PER_S)
    rng, counts = SeededRng(1), dict.fromkeys((f"r{number}" for number in range(8)), 0)
    for number in range(2000):
        counts[one.decide(PlacementRequest(f"s{number}"), view, NOW, rng).candidates[0].runtime_id] += 1
    spread = {200: 0.30, 1000: 0.22, 5000: 0.18}[nodes]  # of the arcs, and of 250 keys each
    assert max(counts.values()) <= 250 * (1 + spread)


def test_the_weights_decide() -> None:
    view = fleet(Told("idle_cpu", utilisation=0.0), Told("busy_cpu", utilisation=1.0))
    view.columns.queue_length[:2] = [9.0, 0.0]
    shares = {}
    for weights in (Remaining(1.0, 0.0, 0.0, 0.0), Remaining(0.0, 0.0, 1.0, 0.0)):
        one, rng = Router(PolicyOptions(remaining=weights).make("weighted_remaining"), 3 * NS_PER_S), SeededRng(1)
        drawn = [one.decide(PlacementRequest(str(number)), view, NOW, rng).candidates[0].runtime_id for number in range(400)]
        shares[weights.cpu] = drawn.count("idle_cpu") / 400
    assert shares[1.0] == 1.0
    assert shares[0.0] == pytest.approx(1 / 11, abs=0.05)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weight_cpu": 0.3}, ["weight_cpu + weight_gpu_memory", "0.3 + 0.5 + 0.2 + 0.1 = 1.1", "sum 1"]),
        ({"weight_gpu_memory": 0.0}, ["0.2 + 0 + 0.2 + 0.1 = 0.5"]),
    ],
)
def test_weights_that_do_not_sum_to_one_are_refused_with_the_numbers(changes: dict[str, float], words: list[str]) -> None:
    with pytest.raises(SettingError) as refused:
        BalancerSettings(**changes)  # type: ignore[arg-type]  # fields of the settings
    assert all(word in str(refused.value) for word in words)


def test_the_rules_refuse_what_the_settings_refuse() -> None:
    with pytest.raises(ValueError, match=re.escape("hash_virtual_nodes is 0; allowed: 1 to 100000")):
        PolicyOptions(0)
    with pytest.raises(ValueError, match="sum 1"):
        Remaining(cpu=0.5)
    assert {field.name for field in fields(Remaining)} == {"cpu", "gpu_memory", "queue", "kv_cache"}
