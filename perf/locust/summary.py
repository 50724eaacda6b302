"""A soak's result as one document: targets first, then the details they came from. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from perf.locust.committed import Assignments, judge_assignments, priced_cpu_s
from perf.locust.figures import FleetSample, Settled, callers_told, distribution, residue, startup_percentile_ms, unexplained
from perf.locust.options import SoakOptions
from perf.locust.record import Outcome, SessionRecord
from perf.percentile import percentile
from perf.targets import Target, all_met, as_json

__all__ = ["Run", "summarise"]

_SHOWN_SAMPLES: Final = 60


@dataclass(frozen=True, slots=True)
class Run:
    """`runtime_cpu_s`: what all runtimes used over `elapsed_s`."""

    options: SoakOptions
    runtimes: Sequence[str]
    sessions: Sequence[SessionRecord]
    samples: Sequence[FleetSample]
    settled: Settled
    runtime_cpu_s: float
    elapsed_s: float


def summarise(run: Run) -> dict[str, Any]:
    options, sessions = run.options, run.sessions
    own_ms_per_s = _own_ms_per_s(run)
    stated = _judged(run, 0.0)
    with_own = _judged(run, own_ms_per_s)
    left = residue(run.settled)
    disagreements = unexplained(sessions, run.settled)
    dropped = sum(session.outcome is Outcome.DROPPED for session in sessions)
    first_audio_ms = [each for session in sessions for each in session.first_audio_ms]
    p50, p95 = percentile(first_audio_ms, 0.5), percentile(first_audio_ms, 0.95)
    targets = [
        Target("counter_residue", sum(abs(value) for value in left.values()), "", "==", 0),
        Target("unexplained_ends", sum(abs(value) for value in disagreements.values()), "sessions", "==", 0),
        Target("dropped_sessions", dropped, "sessions", "==", 0),
        Target("overload_assignment_rate", None if stated.rate is None else round(stated.rate, 4), "", "<", 0.01),
        Target("startup_p95", startup_percentile_ms(sessions, 0.95), "ms", "<", 500),
        Target("startup_p99", startup_percentile_ms(sessions, 0.99), "ms", "<", 1000),
        Target("first_audio_p50", p50, "ms", "<", 800),
        Target("first_audio_p95", p95, "ms", "<", 1200),
    ]
    return {
        "ok": all_met(targets),
        "targets": as_json(targets),
        "sessions": callers_told(sessions),
        "refusals": dict(Counter(session.detail for session in sessions if session.outcome is Outcome.REFUSED)),
        "drops": dict(Counter(session.detail for session in sessions if session.outcome is Outcome.DROPPED)),
        "ended": run.settled.fleet["books"]["ended"],
        "residue": left,
        "unexplained": disagreements,
        "distribution": distribution(run.samples, run.runtimes),
        "overload_assignments": {
            "stated_cost": {**asdict(stated), "worst": round(stated.worst, 3)},
            "with_the_runtimes_own_cost": {
                **asdict(with_own),
                "worst": round(with_own.worst, 3),
                "own_ms_per_s": round(own_ms_per_s, 1),
            },
        },
        "talk": {
            name: sum(getattr(session, name) for session in sessions)
            for name in ("spurts", "replies", "barge_ins", "cancels", "unanswered")
        },
        "missed_audio_deadlines": sum(load["missed_audio_deadlines"] for load in run.settled.loads.values()),
        "first_audio_count": len(first_audio_ms),
        "over_time": _thinned(run.samples),
        "options": {**asdict(options), "plot": str(options.plot)},
    }


def _judged(run: Run, own_ms_per_s: float) -> Assignments:
    options = run.options
    prices = replace(options.prices, own_ms_per_s=own_ms_per_s)
    return judge_assignments(run.sessions, prices, run.runtimes, options.runtime_cores, options.hard_limit)


def _own_ms_per_s(run: Run) -> float:
    """What a second of a session cost beside the stated prices, by what was measured: codec, turn taking, transport, the padding
    around utterances, and the runtimes' idling, shared out."""
    session_s = sum(session.length_s for session in run.sessions if session.started_ns)
    if not session_s:
        return 0.0
    return max(0.0, 1000 * (run.runtime_cpu_s - priced_cpu_s(run.sessions, run.options.prices)) / session_s)


def _thinned(samples: Sequence[FleetSample]) -> list[dict[str, Any]]:
    step = max(1, -(-len(samples) // _SHOWN_SAMPLES))
    return [{"at_s": sample.at_s, "sessions": sample.active} for sample in samples[::step]]
