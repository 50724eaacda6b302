"""What a wave of voice calls comes to: percentiles, shares, and the targets that they are held to. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from perf.demo.scoring import word_error_rate
from perf.percentile import percentile
from perf.targets import Target
from perf.voice.caller import SpokenTurn

__all__ = ["Wave", "figures", "largest_held", "targets_of"]

_FRAME_S: Final = 0.02
_MIB: Final = 1024 * 1024
_RATIOS: Final = (("p50", 0.50), ("p95", 0.95), ("p99", 0.99))


@dataclass(frozen=True, slots=True)
class Wave:
    """What was measured of `calls` concurrent calls; counters are differences over the wave.

    Attributes:
        call_s: seconds on the line, over all calls.
        agent_s: seconds of the agent's audio, over all calls.
        runtime_cpu_s, balancer_cpu_s, caller_cpu_s: CPU of each process.
        idle_cores: what the runtime uses without calls; not charged to them.
        rss_before_bytes, rss_peak_bytes: resident memory of the runtime before the first wave, and at most during this one.
        stale_frames: frames of a reply that came after its end, as the callers saw it.
        stale_frames_sent: the same, as the runtime counts it.
    """

    calls: int
    turns: Sequence[SpokenTurn]
    failures: Sequence[str]
    wall_s: float
    call_s: float
    agent_s: float
    runtime_cpu_s: float
    balancer_cpu_s: float
    caller_cpu_s: float
    idle_cores: float
    rss_before_bytes: int
    rss_peak_bytes: int
    missed_deadlines: int
    stale_frames: int
    stale_frames_sent: int
    commits_withdrawn: int
    foreign_cpu_cores: float | None
    is_noisy: bool


def figures(wave: Wave) -> dict[str, Any]:
    """The wave as a JSON-ready object, with what follows from it."""
    frames = wave.agent_s / _FRAME_S
    for_calls_s = wave.runtime_cpu_s - wave.idle_cores * wave.wall_s
    answered = [turn for turn in wave.turns if turn.is_answered]
    interruptions = [turn for turn in wave.turns if turn.is_interruption]
    noises = sum(turn.noises for turn in wave.turns)
    word_errors = word_error_rate([(turn.reference, turn.transcript) for turn in answered]) if answered else None
    return {
        "calls": wave.calls,
        "turns_spoken": len(wave.turns),
        "turns_answered": len(answered),
        "failures": list(wave.failures),
        "turn_latency_ms": _percentiles(wave.turns, lambda turn: turn.first_audio_ms),
        "stages_ms": {
            "decided": _percentiles(wave.turns, lambda turn: turn.decided_ms),
            "transcript": _percentiles(wave.turns, lambda turn: turn.transcript_ms),
            "first_text": _percentiles(wave.turns, lambda turn: turn.first_text_ms),
            "first_audio": _percentiles(wave.turns, lambda turn: turn.first_audio_ms),
        },
        "interruptions": len(interruptions),
        "interruptions_noticed": sum(turn.was_noticed for turn in interruptions),
        "interruption_ms": _percentiles(wave.turns, lambda turn: turn.interruption_ms),
        "stale_frames": wave.stale_frames,
        "stale_frames_sent": wave.stale_frames_sent,
        "noises": noises,
        "stopped_by_noise": sum(turn.stopped_by_noise for turn in wave.turns),
        "commits_early": sum(turn.commits_early for turn in wave.turns),
        "commits_early_withdrawn": sum(turn.withdrawn for turn in wave.turns),
        "commits_withdrawn": wave.commits_withdrawn,
        "word_error_rate": _rounded(word_errors, 4),
        "wall_s": round(wave.wall_s, 2),
        "call_s": round(wave.call_s, 1),
        "runtime_cpu_s": round(wave.runtime_cpu_s, 2),
        "runtime_core_percent_per_call": _rounded(100 * for_calls_s / wave.call_s if wave.call_s else None, 2),
        "balancer_core_percent_per_call": _rounded(100 * wave.balancer_cpu_s / wave.call_s if wave.call_s else None, 2),
        "caller_cpu_cores": _rounded(wave.caller_cpu_s / wave.wall_s if wave.wall_s else None, 3),
        "rss_peak_mib": round(wave.rss_peak_bytes / _MIB, 1),
        "rss_per_call_mib": round((wave.rss_peak_bytes - wave.rss_before_bytes) / _MIB / wave.calls, 2),
        "missed_audio_deadlines": wave.missed_deadlines,
        "missed_audio_deadlines_share": _rounded(wave.missed_deadlines / frames if frames else None, 5),
        "foreign_cpu_cores": wave.foreign_cpu_cores,
        "noisy": wave.is_noisy,
    }


def targets_of(found: Mapping[str, Any]) -> list[Target]:
    """What `figures` is held to (requirements V2, V3, V6). The cost of a call is what lets the default limit of 32 sessions fit
    two cores filled to 0.8."""
    at = found["calls"]
    share = found["turns_answered"] / found["turns_spoken"] if found["turns_spoken"] else None
    targets = [
        # A call that was refused or broke off speaks no turns, so no other target would miss it.
        Target(f"failures_at_{at}", len(found["failures"]), "calls", "==", 0),
        Target(f"turns_answered_at_{at}", share, "share", ">=", 0.99),
        Target(f"turn_latency_p50_at_{at}", found["turn_latency_ms"]["p50"], "ms", "<", 600.0),
        Target(f"turn_latency_p95_at_{at}", found["turn_latency_ms"]["p95"], "ms", "<", 1200.0),
        Target(f"stale_frames_at_{at}", found["stale_frames"] + found["stale_frames_sent"], "frames", "==", 0),
        Target(f"word_error_rate_at_{at}", found["word_error_rate"], "share", "<", 0.15),
        Target(f"runtime_cpu_per_call_at_{at}", found["runtime_core_percent_per_call"], "% of a core", "<", 5.0),
        Target(f"missed_audio_deadlines_at_{at}", found["missed_audio_deadlines_share"], "share", "<", 0.001),
    ]
    if found["interruptions"]:
        # The fewest calls may draw no interruption at all; then there is nothing to hold.
        noticed = found["interruptions_noticed"] / found["interruptions"]
        targets += [
            Target(f"interruptions_noticed_at_{at}", noticed, "share", "==", 1.0),
            Target(f"interruption_p95_at_{at}", found["interruption_ms"]["p95"], "ms", "<", 250.0),
        ]
    return targets


def largest_held(waves: Sequence[Mapping[str, Any]]) -> int:
    """The most calls at once that met the targets of V2 and V6 in these waves (what a call costs apart); 0: none did."""
    held = 0
    for found in waves:
        needed = [target for target in targets_of(found) if not target.name.startswith(("runtime_cpu", "word_error"))]
        if all(target.is_met for target in needed):
            held = max(held, int(found["calls"]))
    return held


def _percentiles(turns: Sequence[SpokenTurn], of: Callable[[SpokenTurn], float | None]) -> dict[str, float | None]:
    values = [value for turn in turns if (value := of(turn)) is not None]
    return {name: _rounded(percentile(values, ratio)) for name, ratio in _RATIOS}


def _rounded(value: float | None, digits: int = 1) -> float | None:
    return None if value is None else round(value, digits)
