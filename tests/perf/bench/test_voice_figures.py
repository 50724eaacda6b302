"""Figures of a wave: what follows from the counters, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perf.bench.voice_figures import Wave, figures, percentile, stage_means_ms, stage_sums, targets_of
from perf.targets import all_met

_WAVE = Wave(
    calls=10,
    turns=20,
    latencies_ms=[500.0] * 10 + [580.0] * 9 + [1100.0],
    failures=[],
    withdrawn_replies=1,
    wall_s=20.0,
    call_s=180.0,
    agent_s=100.0,
    runtime_cpu_s=7.6,
    balancer_cpu_s=0.9,
    caller_cpu_s=2.0,
    idle_cores=0.02,
    rss_before_bytes=300 * 1024 * 1024,
    rss_peak_bytes=350 * 1024 * 1024,
    missed_deadlines=4,
    stages_ms={"decided": 500.0},
    foreign_cpu_cores=0.05,
    is_noisy=False,
)


@pytest.mark.parametrize(
    ("values", "ratio", "expected"),
    [
        ([], 0.5, None),
        ([4.0], 0.95, 4.0),
        ([4.0, 1.0, 3.0, 2.0], 0.5, 2.0),
        ([4.0, 1.0, 3.0, 2.0], 0.51, 3.0),
        ([float(n) for n in range(1, 21)], 0.95, 19.0),
        ([float(n) for n in range(1, 21)], 1.0, 20.0),
        ([1.0, 2.0], 0.0, 1.0),
    ],
)
def test_percentiles_by_nearest_rank(values: list[float], ratio: float, expected: float | None) -> None:
    assert percentile(values, ratio) == expected


def test_figures_of_a_wave() -> None:
    found = figures(_WAVE)
    # CPU for the calls: 7.6 s less 0.02 cores for 20 s = 7.2 s; over 180 call-seconds 4 % of a core.
    assert found["runtime_core_percent_per_call"] == 4.0
    assert found["balancer_core_percent_per_call"] == 0.5
    assert found["caller_cpu_cores"] == 0.1
    assert found["rss_per_call_mib"] == 5.0
    # 100 s of audio are 5,000 frames of 20 ms.
    assert found["missed_audio_deadlines_share"] == 0.0008
    assert (found["turn_latency_p50_ms"], found["turn_latency_p95_ms"], found["turn_latency_max_ms"]) == (500.0, 580.0, 1100.0)
    assert all_met(targets_of(found))


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        ({"latencies_ms": [500.0] * 19}, "turns_answered_at_10"),
        ({"latencies_ms": [600.0] * 20}, "turn_latency_p50_at_10"),
        ({"latencies_ms": [500.0] * 18 + [1200.0] * 2}, "turn_latency_p95_at_10"),
        ({"runtime_cpu_s": 9.4}, "runtime_cpu_per_call_at_10"),
        ({"missed_deadlines": 5}, "missed_audio_deadlines_at_10"),
    ],
)
def test_each_target_can_be_missed(change: dict[str, Any], missed: str) -> None:
    targets = targets_of(figures(replace(_WAVE, **change)))
    assert [target.name for target in targets if not target.is_met] == [missed]


def test_a_wave_in_which_nobody_was_answered_misses_and_does_not_raise() -> None:
    found = figures(replace(_WAVE, latencies_ms=[], failures=["gone"], call_s=0.0, agent_s=0.0, wall_s=0.0))
    assert found["turn_latency_p95_ms"] is None
    assert not any(target.is_met for target in targets_of(found))


def test_stage_means_are_differences() -> None:
    name = "switchboard_runtime_turn_latency_seconds"
    before = stage_sums(f'{name}_count{{stage="decided"}} 2.0\n{name}_sum{{stage="decided"}} 1.5\n')
    after = stage_sums(
        f"# HELP {name} text\n"
        f'{name}_bucket{{le="0.5",stage="decided"}} 1.0\n'
        f'{name}_count{{stage="decided"}} 4.0\n{name}_sum{{stage="decided"}} 2.5\n'
        f'{name}_count{{stage="first_audio"}} 2.0\n{name}_sum{{stage="first_audio"}} 1.4\n'
        f'{name}_count{{stage="transcript"}} 0.0\n{name}_sum{{stage="transcript"}} 0.0\n'
    )
    assert stage_means_ms(before, after) == {"decided": 500.0, "first_audio": 700.0}
