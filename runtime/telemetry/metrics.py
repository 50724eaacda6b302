"""The runtime's Prometheus metrics: one table of names, units and help, in a registry of its own."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from runtime.conversation.ports import Interruption, TurnLatency
from runtime.dialogue.turn_table import Floor
from runtime.primitives.load_snapshot import LoadSnapshot, RuntimeState
from runtime.primitives.reasons import EndReason

__all__ = ["RuntimeMetrics"]

_TURN_BUCKETS_S = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0)
_INTERRUPTION_BUCKETS_S = (0.1, 0.15, 0.2, 0.225, 0.25, 0.3, 0.4, 0.6, 1.0)
_STARTUP_BUCKETS_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class RuntimeMetrics:
    """Counts calls' events as they happen and reads the snapshot when scraped.

    | metric | unit | meaning |
    |---|---|---|
    | switchboard_runtime_sessions_started_total | sessions | sessions whose first valid message came |
    | switchboard_runtime_sessions_ended_total{reason} | sessions | ended sessions by reason |
    | switchboard_runtime_sessions_active | sessions | live now |
    | switchboard_runtime_places_reserved | places | held for callers on their way |
    | switchboard_runtime_reservations_refused_total{reason} | places | refused by reason |
    | switchboard_runtime_utilisation_ratio | 1 | own CPU over the share of the allowed cores, 10 s mean |
    | switchboard_runtime_loop_lag_p99_seconds | s | event-loop lag |
    | switchboard_runtime_memory_bytes | B | resident |
    | switchboard_runtime_engine_jobs_waiting | jobs | engine work that waits for a worker |
    | switchboard_runtime_outbox_events_waiting | events | over all calls, waiting for callers to read |
    | switchboard_runtime_audio_deadlines_missed_total | frames | 20 ms frames that left after their play-out time |
    | switchboard_runtime_stale_events_dropped_total | events | of dead generations, stopped at the fence |
    | switchboard_runtime_stale_frames_sent_total | frames | of dead generations, sent after the fence: 0 |
    | switchboard_runtime_interruption_seconds | s | first voiced sample over the agent to the hold of its output |
    | switchboard_runtime_interruptions_total{outcome} | interruptions | speech over the agent that stopped it, or did not |
    | switchboard_runtime_commits_withdrawn_total{stage} | turns | taken to be over too early, by how far the answer was |
    | switchboard_runtime_turn_latency_seconds{stage} | s | last voiced sample to decided, transcript, first_text, first_audio |
    | switchboard_runtime_startup_seconds | s | reservation to first valid message |
    | switchboard_runtime_reports_told_total{to} | reports | load reports to balancers that are not ours: orca, agent_check |
    | switchboard_runtime_callers_away | sessions | that wait for a caller who lost its connection |
    | switchboard_runtime_callers_lost_total | callers | of resumable sessions, lost their connection |
    | switchboard_runtime_callers_back_total | callers | came back to their session |
    | switchboard_runtime_tasks | tasks | asynchronous tasks alive; grows with calls and falls back with them |
    | switchboard_runtime_state{state} | 1 | 1 for the present state |
    """

    def __init__(self, on_startup: Callable[[float], None], on_late: Callable[[], None]) -> None:
        self.registry = CollectorRegistry()
        prefix = "switchboard_runtime"
        self._on_startup = on_startup
        self._on_late = on_late
        self._started = Counter(f"{prefix}_sessions_started", "Sessions whose first valid message came", registry=self.registry)
        self._ended = Counter(f"{prefix}_sessions_ended", "Ended sessions by reason", ["reason"], registry=self.registry)
        self._active = Gauge(f"{prefix}_sessions_active", "Live sessions", registry=self.registry)
        self._reserved = Gauge(f"{prefix}_places_reserved", "Places held for callers on their way", registry=self.registry)
        self._refused = Gauge(
            f"{prefix}_reservations_refused_total", "Reservations refused by reason", ["reason"], registry=self.registry
        )
        self._utilisation = Gauge(
            f"{prefix}_utilisation_ratio", "Own CPU over the share of the allowed cores, 10 s mean", registry=self.registry
        )
        self._lag = Gauge(f"{prefix}_loop_lag_p99_seconds", "Event-loop lag, 99th percentile", registry=self.registry)
        self._memory = Gauge(f"{prefix}_memory_bytes", "Resident memory", registry=self.registry)
        self._jobs = Gauge(f"{prefix}_engine_jobs_waiting", "Engine work waiting for a worker", registry=self.registry)
        self._outbox = Gauge(
            f"{prefix}_outbox_events_waiting", "Events of all calls waiting for callers to read", registry=self.registry
        )
        self._late = Counter(
            f"{prefix}_audio_deadlines_missed", "20 ms frames that left after their play-out time", registry=self.registry
        )
        self._stale = Counter(
            f"{prefix}_stale_events_dropped", "Events of dead generations stopped at the fence", registry=self.registry
        )
        self._stale_sent = Counter(
            f"{prefix}_stale_frames_sent", "Frames of dead generations sent after the fence", registry=self.registry
        )
        self._interruption = Histogram(
            f"{prefix}_interruption_seconds",
            "From the first voiced sample over the agent to the hold of its output",
            buckets=_INTERRUPTION_BUCKETS_S,
            registry=self.registry,
        )
        self._interruptions = Counter(
            f"{prefix}_interruptions", "Speech over the agent by what came of it", ["outcome"], registry=self.registry
        )
        self._withdrawn = Counter(
            f"{prefix}_commits_withdrawn", "Turns that were taken to be over too early", ["stage"], registry=self.registry
        )
        self._turn = Histogram(
            f"{prefix}_turn_latency_seconds",
            "From the last voiced sample to each stage of the answer",
            ["stage"],
            buckets=_TURN_BUCKETS_S,
            registry=self.registry,
        )
        self._startup = Histogram(
            f"{prefix}_startup_seconds", "Reservation to first valid message", buckets=_STARTUP_BUCKETS_S, registry=self.registry
        )
        self._told = Counter(
            f"{prefix}_reports_told", "Load reports taken by balancers that are not ours", ["to"], registry=self.registry
        )
        self._away = Gauge(f"{prefix}_callers_away", "Sessions that wait for a caller who was lost", registry=self.registry)
        self._callers_lost = Counter(
            f"{prefix}_callers_lost", "Callers of resumable sessions who were lost", registry=self.registry
        )
        self._callers_back = Counter(f"{prefix}_callers_back", "Callers who came back to their session", registry=self.registry)
        self._tasks = Gauge(f"{prefix}_tasks", "Asynchronous tasks alive", registry=self.registry)
        self._state = Gauge(f"{prefix}_state", "1 for the present state", ["state"], registry=self.registry)

    def caller_lost(self) -> None:
        self._callers_lost.inc()

    def caller_back(self) -> None:
        self._callers_back.inc()

    def session_started(self, startup_ms: float) -> None:
        self._started.inc()
        self._startup.observe(startup_ms / 1000)
        self._on_startup(startup_ms)

    def session_ended(self, reason: EndReason) -> None:
        self._ended.labels(reason.value).inc()

    def turn_measured(self, latency: TurnLatency) -> None:
        self._turn.labels("decided").observe(latency.decided_ms / 1000)
        self._turn.labels("transcript").observe(latency.transcript_ms / 1000)
        self._turn.labels("first_text").observe(latency.first_text_ms / 1000)
        self._turn.labels("first_audio").observe(latency.first_audio_ms / 1000)

    def audio_was_late(self) -> None:
        self._late.inc()
        self._on_late()

    def report_told(self, to: str) -> None:
        """`to`: orca (out of band) or agent_check."""
        self._told.labels(to).inc()

    def stale_dropped(self, events: int) -> None:
        self._stale.inc(events)

    def stale_sent(self) -> None:
        self._stale_sent.inc()

    def interruption_measured(self, held_ms: float) -> None:
        self._interruption.observe(held_ms / 1000)

    def interruption_settled(self, outcome: Interruption) -> None:
        self._interruptions.labels(outcome.value).inc()

    def commit_withdrawn(self, stage: Floor) -> None:
        self._withdrawn.labels(stage.value).inc()

    def exposition(self, snapshot: LoadSnapshot, outbox_waiting: int, tasks: int, away: int = 0) -> tuple[bytes, str]:
        """The text that a scrape gets, with its content type."""
        self._active.set(snapshot.active)
        self._reserved.set(snapshot.reserved)
        for reason, count in snapshot.totals.refused.items():
            self._refused.labels(reason).set(count)
        self._utilisation.set(snapshot.utilisation)
        self._lag.set(snapshot.loop_lag_p99_ms / 1000)
        self._memory.set(snapshot.memory_bytes)
        self._jobs.set(snapshot.queue_length)
        self._outbox.set(outbox_waiting)
        self._tasks.set(tasks)
        self._away.set(away)
        for state in RuntimeState:
            self._state.labels(state.value).set(1 if state is snapshot.state else 0)
        return generate_latest(self.registry), CONTENT_TYPE_LATEST
