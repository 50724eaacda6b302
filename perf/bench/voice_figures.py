"""What a wave of voice calls comes to: percentiles, shares, stage means, and the targets that they are held to. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from perf.targets import Target

__all__ = ["Wave", "figures", "percentile", "stage_means_ms", "stage_sums", "targets_of"]

_STAGE: Final = re.compile(r'^switchboard_runtime_turn_latency_seconds_(sum|count)\{stage="(\w+)"\} (\S+)$', re.MULTILINE)
_FRAME_S: Final = 0.02
_MIB: Final = 1024 * 1024

StageSums = Mapping[str, tuple[float, float]]
"""Seconds and count of each stage, since the runtime began."""


@dataclass(frozen=True, slots=True)
class Wave:
    """What was measured of `calls` concurrent calls; all but latencies and shares are differences over the wave.

    Attributes:
        latencies_ms: one for each answered turn, last voiced sample sent to first audio.
        call_s: seconds on the line, over all calls.
        agent_s: seconds of the agent's audio, over all calls.
        runtime_cpu_s, balancer_cpu_s, caller_cpu_s: CPU of each process.
        idle_cores: what the runtime uses without calls; not charged to them.
        rss_before_bytes, rss_peak_bytes: resident memory of the runtime before the first wave, and at most during this one.
    """

    calls: int
    turns: int
    latencies_ms: Sequence[float]
    failures: Sequence[str]
    withdrawn_replies: int
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
    stages_ms: Mapping[str, float]
    foreign_cpu_cores: float | None
    is_noisy: bool


def percentile(values: Sequence[float], ratio: float) -> float | None:
    """The smallest value that at least `ratio` of all values do not exceed (nearest rank); None without values.

    >>> percentile([3.0, 1.0, 2.0, 4.0], 0.5), percentile([1.0, 9.0], 0.95), percentile([], 0.5)
    (2.0, 9.0, None)
    """
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(ratio * len(ordered)) - 1)]


def stage_sums(exposition: str) -> StageSums:
    """Seconds and count of each stage of a turn, out of a runtime's Prometheus text."""
    found: dict[str, dict[str, float]] = {}
    for kind, stage, value in _STAGE.findall(exposition):
        found.setdefault(stage, {})[kind] = float(value)
    return {stage: (kinds.get("sum", 0.0), kinds.get("count", 0.0)) for stage, kinds in found.items()}


def stage_means_ms(before: StageSums, after: StageSums) -> dict[str, float]:
    """Mean milliseconds from the last voiced sample's arrival to each stage, between two readings; without turns, nothing."""
    means = {}
    for stage, (seconds, count) in after.items():
        earlier_s, earlier_count = before.get(stage, (0.0, 0.0))
        if count > earlier_count:
            means[stage] = round((seconds - earlier_s) * 1000 / (count - earlier_count), 1)
    return means


def figures(wave: Wave) -> dict[str, Any]:
    """The wave as a JSON-ready object, with what follows from it."""
    frames = wave.agent_s / _FRAME_S
    for_calls_s = wave.runtime_cpu_s - wave.idle_cores * wave.wall_s
    return {
        "calls": wave.calls,
        "turns_spoken": wave.turns,
        "turns_answered": len(wave.latencies_ms),
        "failures": list(wave.failures),
        "withdrawn_replies": wave.withdrawn_replies,
        "turn_latency_p50_ms": _rounded(percentile(wave.latencies_ms, 0.50)),
        "turn_latency_p95_ms": _rounded(percentile(wave.latencies_ms, 0.95)),
        "turn_latency_max_ms": _rounded(max(wave.latencies_ms, default=None)),
        "stage_means_ms": dict(wave.stages_ms),
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
    """What `figures` is held to. The latencies are the product's own promise; the cost of a call is what lets the default limit
    of 32 sessions fit two cores filled to 0.8."""
    at = found["calls"]
    share = found["turns_answered"] / found["turns_spoken"] if found["turns_spoken"] else None
    return [
        Target(f"turns_answered_at_{at}", share, "share", "==", 1.0),
        Target(f"turn_latency_p50_at_{at}", found["turn_latency_p50_ms"], "ms", "<", 600.0),
        Target(f"turn_latency_p95_at_{at}", found["turn_latency_p95_ms"], "ms", "<", 1200.0),
        Target(f"runtime_cpu_per_call_at_{at}", found["runtime_core_percent_per_call"], "% of a core", "<", 5.0),
        Target(f"missed_audio_deadlines_at_{at}", found["missed_audio_deadlines_share"], "share", "<", 0.001),
    ]


def _rounded(value: float | None, digits: int = 1) -> float | None:
    return None if value is None else round(value, digits)
