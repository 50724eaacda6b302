"""A short fixed matrix of the simulator: what the default policy must always keep, and that the same seed is the same run."""

from __future__ import annotations

import pytest

from balancer.routing.policies import POLICIES
from perf.sim.matrix import Job, run_job
from perf.sim.scenarios import SCENARIOS

_SIZES = {"runtimes": 24, "warm_up_s": 120.0, "measured_s": 120.0}


def run(scenario: str, policy: str, seed: int = 1, **sizes: float) -> dict[str, float]:
    return run_job(Job(scenario, policy, seed, **{**_SIZES, **sizes}))  # type: ignore[arg-type]  # sizes of one job


@pytest.mark.parametrize("scenario", ["steady", "report_loss", "clock_jumps", "many_balancers_8", "unequal_traffic", "tight"])
def test_close_to_the_ideal(scenario: str) -> None:  # requirement R2
    ours, ideal = run(scenario, "session_aware"), run(scenario, "ideal")
    assert ours["max_over_mean"] <= ideal["max_over_mean"] + 0.06
    assert ours["overload_rate"] == 0.0
    assert ours["dropped"] == 0.0
    assert ours["refused"] <= ideal["refused"] + 0.02


def test_unlike_machines_are_found_out() -> None:
    ours, naive = run("mixed_hardware", "session_aware", warm_up_s=300.0), run("mixed_hardware", "two_choices")
    assert ours["max_over_mean"] < 1.3
    assert ours["overload_rate"] <= 0.01
    assert naive["max_over_mean"] > 2.0


def test_dear_callers_are_found_out() -> None:
    ours, by_count = (
        run("mixed_cost", policy, runtimes=48, warm_up_s=200.0) for policy in ("session_aware", "local_least_connections")
    )
    assert ours["max_over_mean"] < by_count["max_over_mean"] - 0.05


def test_beyond_capacity_calls_keep_their_audio() -> None:  # requirement R6
    ours, ideal, naive = (run("flood", policy, measured_s=300.0) for policy in ("session_aware", "ideal", "two_choices"))
    assert ours["late_share"] <= 0.005
    assert abs(ours["refused"] - ideal["refused"]) <= 0.04
    assert naive["late_share"] > ours["late_share"]


def test_a_restarted_runtime_is_not_flooded_and_a_deploy_drops_nothing() -> None:
    restarted = run("restart", "session_aware", measured_s=200.0)
    assert 0.0 < restarted["inflow_peak"] <= 4.5
    assert run("rolling_deploy", "session_aware")["dropped"] == 0.0


def test_the_same_seed_is_the_same_run_and_another_is_not() -> None:
    first, again, other = (run("steady", "session_aware", seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_every_policy_runs_in_every_scenario() -> None:
    for number, scenario in enumerate(SCENARIOS):
        for place, policy in enumerate(POLICIES):
            if (number + place) % 5 == 0:  # each scenario and each policy several times, not each pair
                found = run(scenario, policy, runtimes=6, warm_up_s=20.0, measured_s=20.0)
                assert found["starts"] > 0.0, (scenario, policy)
                assert found["startup_p99_ms"] > 0.0, (scenario, policy)
