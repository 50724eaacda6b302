"""Figures of a wave: what follows from the counters, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perf.targets import all_met
from perf.voice.caller import SpokenTurn
from perf.voice.figures import Wave, figures, largest_held, targets_of


def _turn(first_audio_ms: float | None = 500.0, **fields: Any) -> SpokenTurn:
    answered = {"is_answered": first_audio_ms is not None, "reference": "ten of clubs", "transcript": "10 of clubs"}
    return SpokenTurn(first_audio_ms=first_audio_ms, **{**answered, **fields})


def _over(interruption_ms: float | None, **fields: Any) -> SpokenTurn:
    return _turn(is_interruption=True, interruption_ms=interruption_ms, **fields)


_TURNS = [_turn(500.0)] * 10 + [_turn(580.0)] * 7 + [_over(200.0), _over(None), _turn(1100.0)]
_WAVE = Wave(
    calls=10,
    turns=_TURNS,
    failures=[],
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
    stale_frames=0,
    stale_frames_sent=0,
    commits_withdrawn=3,
    foreign_cpu_cores=0.05,
    is_noisy=False,
)


def test_figures_of_a_wave() -> None:
    found = figures(_WAVE)
    # CPU for the calls: 7.6 s less 0.02 cores for 20 s = 7.2 s; over 180 call-seconds 4 % of a core.
    assert found["runtime_core_percent_per_call"] == 4.0
    assert found["balancer_core_percent_per_call"] == 0.5
    assert found["caller_cpu_cores"] == 0.1
    assert found["rss_per_call_mib"] == 5.0
    # 100 s of audio are 5,000 frames of 20 ms.
    assert found["missed_audio_deadlines_share"] == 0.0008
    assert found["turn_latency_ms"] == {"p50": 500.0, "p95": 580.0, "p99": 1100.0}
    assert (found["interruptions"], found["interruption_ms"]["p95"]) == (2, 200.0)
    assert found["word_error_rate"] == 0.0
    assert all_met(targets_of(found))


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        ({"turns": [*_TURNS, _turn(None)]}, "turns_answered_at_10"),
        ({"turns": [*_TURNS[:5], *[_turn(600.0)] * 15, _over(200.0)]}, "turn_latency_p50_at_10"),
        ({"turns": [*_TURNS, _turn(1200.0), _turn(1200.0)]}, "turn_latency_p95_at_10"),
        ({"turns": [*_TURNS, _over(250.0)]}, "interruption_p95_at_10"),
        ({"turns": [*_TURNS, _over(None, was_noticed=False)]}, "interruptions_noticed_at_10"),
        ({"turns": [*_TURNS, *[_turn(transcript="")] * 4]}, "word_error_rate_at_10"),
        ({"failures": ["refused: no capacity"]}, "failures_at_10"),
        ({"stale_frames": 1}, "stale_frames_at_10"),
        ({"stale_frames_sent": 1}, "stale_frames_at_10"),
        ({"runtime_cpu_s": 9.4}, "runtime_cpu_per_call_at_10"),
        ({"missed_deadlines": 5}, "missed_audio_deadlines_at_10"),
    ],
)
def test_each_target_can_be_missed(change: dict[str, Any], missed: str) -> None:
    targets = targets_of(figures(replace(_WAVE, **change)))
    assert [target.name for target in targets if not target.is_met] == [missed]


def test_a_wave_in_which_nobody_was_answered_misses_and_does_not_raise() -> None:
    found = figures(replace(_WAVE, turns=[_turn(None)], failures=["gone"], call_s=0.0, agent_s=0.0, wall_s=0.0))
    assert found["turn_latency_ms"]["p95"] is None
    missed = {target.name for target in targets_of(found) if not target.is_met}
    assert {"turns_answered_at_10", "turn_latency_p50_at_10", "missed_audio_deadlines_at_10"} <= missed


def test_the_largest_number_of_calls_that_held() -> None:
    held, slow = figures(_WAVE), figures(replace(_WAVE, calls=20, turns=[_turn(900.0)]))
    dear = figures(replace(_WAVE, calls=15, runtime_cpu_s=20.0))  # what a call costs is another promise
    assert largest_held([held, slow, dear]) == 15
    assert largest_held([slow]) == 0
