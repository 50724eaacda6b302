"""What the demo has to show: each call, the distribution, the books, and the targets that they are held to."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import anyio
import numpy as np
import soxr
from numpy.typing import NDArray

from clients.realtime import RATE_HZ
from perf.demo.calls import WAVE, DemoCall, DemoRun
from perf.demo.scoring import contains_words, word_error_rate
from perf.targets import Target, all_met, as_json
from runtime.conversation.segments import recognize
from runtime.engines.load import load_engines
from runtime.engines.ports import INPUT_RATE_HZ, Samples

__all__ = ["report"]

_NORMALISATION: Final = "case, punctuation and the writing of numbers do not count; see perf/demo/scoring.py"


async def report(run: DemoRun) -> dict[str, Any]:
    """The whole result as one JSON-ready object. Loads a recogniser to listen to the replies."""
    replies = await _hear_replies(run.calls)
    answered = [call for call in run.calls if call.result is not None and not call.failure]
    books = run.fleet["books"]
    ended = sum(books["ended"].values()) + books["runtime_lost"] + books["moved_out"] - books["moved_in"]
    transcripts = [(call.recording.reference, call.result.transcript if call.result else "") for call in run.calls]
    read_back = [contains_words(call.result.reply_text, call.result.transcript) for call in answered if call.result]
    elsewhere = [runtime for runtime in run.first_wave if runtime != run.held_runtime]
    latencies = sorted(call.result.turn_latency_ms for call in answered if call.result and call.result.turn_latency_ms > 0)
    targets = [
        Target("calls_answered", len(answered) / len(run.calls), "share", "==", 1.0),
        Target("transcript_word_error", word_error_rate(transcripts), "share", "<", 0.15),
        Target("reply_audio_word_error", word_error_rate(replies) if replies else None, "share", "<", 0.20),
        Target("replies_with_what_was_said", _share(read_back), "share", "==", 1.0),
        Target(f"of_first_{WAVE}_on_the_other_runtimes", len(elsewhere), "calls", "==", float(WAVE)),
        Target("started_beside_attempted_less_refused", books["started"] - (run.attempted - run.refused), "sessions", "==", 0.0),
        Target("active_at_the_end", books["active"], "sessions", "==", 0.0),
        Target("ended_beside_started", books["started"] - ended, "sessions", "==", 0.0),
        Target("books_balanced", 1.0 if books["balanced"] else 0.0, "yes", "==", 1.0),
    ]
    return {
        "ok": all_met(targets),
        "targets": as_json(targets),
        "normalisation": _NORMALISATION,
        "calls": [_call_document(call) for call in run.calls],
        "turn_latency_ms": {"median": _median(latencies), "worst": max(latencies, default=None)},
        "sessions_by_runtime": _distribution(run),
        "held": {"runtime": run.held_runtime, "calls": run.attempted - len(run.calls)},
        "ledger": {
            "started": books["started"],
            "ended": ended,
            "ended_by_reason": dict(books["ended"]),
            "active": books["active"],
            "refused": run.refused,
            "attempted": run.attempted,
            "runtime_lost": books["runtime_lost"],
            "balanced": books["balanced"],
        },
    }


def _call_document(call: DemoCall) -> dict[str, Any]:
    result = call.result
    return {
        "session_id": call.session_id,
        "recording": call.recording.name,
        "reference": call.recording.reference,
        "transcript": result.transcript if result else "",
        "reply_text": result.reply_text if result else "",
        "reply_seconds": round(result.reply_s, 3) if result else 0.0,
        "turn_latency_ms": round(result.turn_latency_ms, 1) if result and result.turn_latency_ms > 0 else None,
        "interrupted_replies": result.interrupted_replies if result else 0,
        "tools": [
            {"name": tool.name, "arguments": tool.arguments, "result": tool.result} for tool in (result.tools if result else [])
        ],
        "runtime": result.runtime_id if result else "",
        "reason": call.reason,
        "errors": result.errors if result else [],
        "failure": call.failure or None,
    }


def _distribution(run: DemoRun) -> dict[str, int]:
    counted = Counter(call.result.runtime_id for call in run.calls if call.result is not None)
    held = run.attempted - len(run.calls)
    for runtime in run.fleet["runtimes"]:
        counted.setdefault(runtime["runtime_id"], 0)
    counted[run.held_runtime] += held
    return dict(sorted(counted.items()))


async def _hear_replies(calls: list[DemoCall]) -> list[tuple[str, str]]:
    """Each reply's text beside what the same recogniser hears in its audio."""
    spoken = [call.result for call in calls if call.result is not None and len(call.result.reply_samples)]
    if not spoken:
        return []
    engines = await anyio.to_thread.run_sync(load_engines)
    try:
        return [
            (result.reply_text, await recognize(engines.recognizer, _for_recogniser(result.reply_samples))) for result in spoken
        ]
    finally:
        engines.close()


def _for_recogniser(samples: NDArray[np.int16]) -> Samples:
    resampled: Samples = soxr.resample(samples, RATE_HZ, INPUT_RATE_HZ)
    return resampled


def _share(values: list[bool]) -> float | None:
    return sum(values) / len(values) if values else None


def _median(values: list[float]) -> float | None:
    return values[len(values) // 2] if values else None
