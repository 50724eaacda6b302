"""The exposition: every documented metric is there, counted once, and says what the snapshot says."""

from __future__ import annotations

import re

from prometheus_client.parser import text_string_to_metric_families

from runtime.conversation.ports import Interruption, TurnLatency
from runtime.dialogue.turn_table import Floor
from runtime.primitives.load_snapshot import LegTotals, LoadSnapshot, RuntimeState
from runtime.primitives.reasons import EndReason
from runtime.telemetry.metrics import RuntimeMetrics

_SNAPSHOT = LoadSnapshot(
    "r", 1, 1, 0, 1, 0, 2, 1, 9, LegTotals(refused={"limit": 4}), RuntimeState.DRAINING, 0.5, loop_lag_p99_ms=20.0, queue_length=3
)


def _samples(metrics: RuntimeMetrics) -> dict[tuple[str, str], float]:
    body, content_type = metrics.exposition(_SNAPSHOT, 5, 7)
    assert content_type.startswith("text/plain")
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def test_what_happens_is_counted_and_what_is_is_read() -> None:
    startups: list[float] = []
    late: list[None] = []
    metrics = RuntimeMetrics(startups.append, lambda: late.append(None))
    metrics.session_started(30.0)
    metrics.session_ended(EndReason.SLOW_CALLER)
    metrics.turn_measured(TurnLatency(100.0, 200.0, 300.0, 400.0))
    metrics.audio_was_late()
    metrics.stale_dropped(7)
    found = _samples(metrics)
    prefix = "switchboard_runtime_"
    assert found[f"{prefix}sessions_started_total", ""] == 1
    assert found[f"{prefix}sessions_ended_total", "slow_caller"] == 1
    assert found[f"{prefix}sessions_active", ""] == 2
    assert found[f"{prefix}places_reserved", ""] == 1
    assert found[f"{prefix}reservations_refused_total", "limit"] == 4
    assert found[f"{prefix}loop_lag_p99_seconds", ""] == 0.02
    assert found[f"{prefix}engine_jobs_waiting", ""] == 3
    assert found[f"{prefix}outbox_events_waiting", ""] == 5
    assert found[f"{prefix}stale_events_dropped_total", ""] == 7
    assert found[f"{prefix}turn_latency_seconds_sum", "first_audio"] == 0.4
    assert found[f"{prefix}startup_seconds_sum", ""] == 0.03
    assert [state for state in RuntimeState if found[f"{prefix}state", state.value]] == [RuntimeState.DRAINING]
    assert (startups, len(late)) == ([30.0], 1)
    assert found[f"{prefix}audio_deadlines_missed_total", ""] == 1


def test_every_documented_metric_exists_and_every_metric_is_documented() -> None:
    documented = set(re.findall(r"\| (switchboard_runtime_\w+)", RuntimeMetrics.__doc__ or ""))
    metrics = RuntimeMetrics(lambda _: None, lambda: None)
    metrics.session_ended(EndReason.DRAINED)
    metrics.turn_measured(TurnLatency(1.0, 2.0, 3.0, 4.0))
    metrics.report_told("orca")
    metrics.interruption_settled(Interruption.STOPPED)
    metrics.commit_withdrawn(Floor.THINKING)
    names = {name for name, _ in _samples(metrics)}
    bare = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in names if not name.endswith("_created")}
    assert documented == bare


def test_two_runtimes_in_one_process_count_apart() -> None:
    one, other = (RuntimeMetrics(lambda _: None, lambda: None) for _ in range(2))
    one.stale_dropped(3)
    assert _samples(other)["switchboard_runtime_stale_events_dropped_total", ""] == 0
