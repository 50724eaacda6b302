"""Every metric of the balancer in one table, and the collector that reads the live state at scrape time.

Counters and gauges are read from the objects that own the numbers, so there is no second count that could drift. Only
durations are recorded as they happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from balancer.fleet.fleet import Fleet
from balancer.placement.placer import Placer
from balancer.placement.releases import Releases
from balancer.telemetry.journal_file import JournalFile
from runtime.primitives.clock import NS_PER_S, Clock

__all__ = ["FRONT_GAUGES", "METRICS", "BalancerMetrics", "Description", "FrontNumbers", "family", "move_histogram"]


@dataclass(frozen=True, slots=True)
class Description:
    kind: str
    unit: str
    help: str
    labels: tuple[str, ...] = ()


_D = Description
METRICS: Final[Mapping[str, Description]] = MappingProxyType({
    "switchboard_placements": _D("counter", "placements", "Placement attempts that ended, by outcome.", ("outcome",)),
    "switchboard_placements_attempted": _D("counter", "placements", "Placement attempts."),
    "switchboard_runtime_refusals": _D("counter", "refusals", "Runtimes asked that did not admit, by reason.", ("reason",)),
    "switchboard_decision_seconds": _D("histogram", "seconds", "The pure decision alone."),
    "switchboard_placement_seconds": _D("histogram", "seconds", "A whole placement with its reservation.", ("outcome",)),
    "switchboard_sessions_active": _D("gauge", "sessions", "Live legs in the balancer's books."),
    "switchboard_sessions_started": _D("counter", "sessions", "Legs started."),
    "switchboard_sessions_recovered": _D("counter", "sessions", "Legs found live that the books did not have."),
    "switchboard_sessions_ended": _D("counter", "sessions", "Legs ended, by reason.", ("reason",)),
    "switchboard_sessions_runtime_lost": _D("counter", "sessions", "Legs whose runtime was lost."),
    "switchboard_sessions_unheard": _D("counter", "sessions", "Legs that began and ended before or between enrolments."),
    "switchboard_ledger_balanced": _D("gauge", "0 or 1", "1 while the books balance and agree with every enrolled runtime."),
    "switchboard_leg_event_gaps": _D("counter", "events", "Enrol streams ended because leg events were missing."),
    "switchboard_runtimes": _D("gauge", "runtimes", "Enrolled runtimes."),
    "switchboard_runtimes_eligible": _D("gauge", "runtimes", "Runtimes that would be given a call without needs."),
    "switchboard_runtime_active_sessions": _D("gauge", "sessions", "Reported live legs.", ("runtime",)),
    "switchboard_runtime_estimate": _D("gauge", "sessions", "Active, reserved and in flight.", ("runtime",)),
    "switchboard_runtime_effective_capacity": _D("gauge", "sessions", "Effective capacity (R1).", ("runtime",)),
    "switchboard_runtime_utilisation": _D("gauge", "share", "Reported utilisation; absent while unknown.", ("runtime",)),
    "switchboard_runtime_load": _D("gauge", "share", "Utilisation over its target; absent while unknown.", ("runtime",)),
    "switchboard_report_age_seconds": _D("gauge", "seconds", "Age of the latest report.", ("runtime",)),
    "switchboard_reports": _D("counter", "reports", "Load reports, by what became of them.", ("result",)),
    "switchboard_report_fields_dropped": _D("counter", "fields", "Report fields that were not believed.", ("field",)),
    "switchboard_placements_waiting": _D("gauge", "callers", "Callers who wait for a place; bound waiting_places."),
    "switchboard_relays": _D("gauge", "relays", "Relay processes whose stream to this control is open."),
    "switchboard_releases_waiting": _D("gauge", "releases", "Places to give back, waiting; bound 1024."),
    "switchboard_journal_entries_waiting": _D("gauge", "entries", "Of the journal, not written yet; bound 100,000."),
    "switchboard_journal_entries_dropped": _D("counter", "entries", "Of the journal, thrown away: the disk was too slow."),
    "switchboard_moves": _D("counter", "moves", "Moves of calls that ended, by kind and result.", ("kind", "result")),
    "switchboard_move_seconds": _D("histogram", "seconds", "From the wish or the loss to the cut.", ("kind",)),
    "switchboard_releases_dropped": _D("counter", "releases", "Releases left to the runtime's expiry: too many waited."),
})  # fmt: skip
"""Counters get the suffix `_total` in the exposition."""

FRONT_GAUGES: Final[Mapping[str, Description]] = MappingProxyType(
    {
        "connections": _D("gauge", "connections", "Callers' connections, in whatever state."),
        "relayed": _D("gauge", "sessions", "WebSocket sessions being relayed."),
        "buffered_bytes": _D("gauge", "bytes", "Held in the relay's own buffers and the transports' write buffers."),
        "paused": _D("gauge", "directions", "Directions that back-pressure holds now."),
        "client_messages": _D("counter", "messages", "Complete data messages from callers, relayed."),
        "server_messages": _D("counter", "messages", "Complete data messages from runtimes, relayed."),
        "stalled": _D("counter", "sessions", "Sessions cut because the caller did not read."),
        "protocol_errors": _D("counter", "sessions", "Sessions closed because the caller broke the WebSocket protocol."),
        "upstream_lost": _D("counter", "sessions", "Sessions whose runtime went away without a close."),
        "no_capacity": _D("counter", "sessions", "Sessions whose runtime was lost and that nobody adopted."),
        "replay_bytes": _D("gauge", "bytes", "Callers' messages kept for another runtime; bound replay_most_bytes a call."),
        "replay_dropped": _D("counter", "messages", "Of those, pushed out by a bound while they were still needed."),
        "replayed_bytes": _D("counter", "bytes", "Callers' messages sent again to another runtime."),
        "immovable": _D("gauge", "sessions", "Relayed sessions that no other runtime could go on with now."),
        "away": _D("gauge", "calls", "Calls that wait for their callers to come back; bound resume_most_away a tenant."),
        "told_bytes": _D("gauge", "bytes", "Kept of what callers who may come back were told; bound 4 MiB a call."),
        "returns": _D("counter", "callers", "Callers who came back after they had lost their connection."),
        "dial_failures": _D("counter", "dials", "Runtimes that admitted a call and could not be reached or refused the upgrade."),
        "bad_requests": _D("counter", "requests", "Requests answered with 4xx by the front itself."),
    }
)
"""The numbers of the front by the name of its statistic; exposed as switchboard_relay_NAME."""

_FAST = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 5e-3, 0.1)
_MOVES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
_SLOW = (1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class FrontNumbers:
    """What the front of a process counts. `statistics` gives a number for each name in FRONT_GAUGES, `moves` one for each kind
    and result."""

    statistics: Callable[[], Mapping[str, float]]
    moves: Callable[[], Mapping[tuple[str, str], float]]

    def collect(self) -> Iterable[Metric]:
        yield family("switchboard_moves", METRICS["switchboard_moves"], self.moves())
        numbers = self.statistics()
        for name, description in FRONT_GAUGES.items():
            yield family(f"switchboard_relay_{name}", description, {"": numbers[name]})


@dataclass(frozen=True, slots=True)
class _Sources:
    fleet: Fleet
    placer: Placer
    releases: Releases
    front: FrontNumbers | None
    journal: JournalFile | None
    relays: Callable[[], int]


def move_histogram(registry: CollectorRegistry) -> Histogram:
    described = METRICS["switchboard_move_seconds"]
    return Histogram("switchboard_move_seconds", described.help, described.labels, buckets=_MOVES, registry=registry)


class BalancerMetrics(Collector):
    """Its own registry, nothing global. Also the placer's observer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._registry = CollectorRegistry(auto_describe=False)
        decision, placement = METRICS["switchboard_decision_seconds"], METRICS["switchboard_placement_seconds"]
        self._decision = Histogram("switchboard_decision_seconds", decision.help, buckets=_FAST, registry=self._registry)
        self._placement = Histogram(
            "switchboard_placement_seconds", placement.help, placement.labels, buckets=_SLOW, registry=self._registry
        )
        self._move = move_histogram(self._registry)
        self._sources: _Sources | None = None

    def attach(
        self,
        fleet: Fleet,
        placer: Placer,
        releases: Releases,
        front: FrontNumbers | None,
        journal: JournalFile | None,
        relays: Callable[[], int],
    ) -> None:
        """Once, before the first scrape. `front`: None where callers are held by relays of their own, which tell it themselves;
        `relays`: how many of those are attached."""
        self._sources = _Sources(fleet, placer, releases, front, journal, relays)
        self._registry.register(self)

    def decided(self, elapsed_ns: int) -> None:
        self._decision.observe(elapsed_ns / NS_PER_S)

    def finished(self, outcome: str, elapsed_ns: int) -> None:
        self._placement.labels(outcome).observe(elapsed_ns / NS_PER_S)

    def moved(self, kind: str, result: str, took_ns: int) -> None:
        """`result`: one of the counts' own names; only what moved is worth a duration."""
        if result == "moved":
            self._move.labels(kind).observe(took_ns / NS_PER_S)

    def render(self) -> tuple[bytes, str]:
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def collect(self) -> Iterable[Metric]:
        if self._sources is None:
            return
        at = self._sources
        fleet, placer, releases, journal = at.fleet, at.placer, at.releases, at.journal
        counts, totals, reports = placer.counts, fleet.books.totals, fleet.reports
        one: dict[str, float] = {
            "switchboard_placements_attempted": counts.attempted,
            "switchboard_sessions_active": fleet.books.active,
            "switchboard_sessions_started": totals.started,
            "switchboard_sessions_recovered": totals.recovered,
            "switchboard_sessions_runtime_lost": totals.runtime_lost,
            "switchboard_sessions_unheard": totals.unheard,
            "switchboard_ledger_balanced": float(fleet.books.is_balanced),
            "switchboard_leg_event_gaps": totals.gaps,
            "switchboard_runtimes": len(fleet.membership),
            "switchboard_placements_waiting": len(placer.room.queue),
            "switchboard_relays": at.relays(),
            "switchboard_releases_waiting": releases.waiting,
            "switchboard_journal_entries_waiting": 0 if journal is None else journal.waiting,
            "switchboard_journal_entries_dropped": 0 if journal is None else journal.dropped,
            "switchboard_releases_dropped": releases.dropped,
        }
        now_ns = self._clock.now_ns()
        one["switchboard_runtimes_eligible"] = len(fleet.view) - len(placer.router.standing(fleet.view, now_ns))
        many: dict[str, Mapping[str, float]] = {
            "switchboard_placements": {"placed": counts.placed, "abandoned": counts.abandoned, **counts.refused},
            "switchboard_runtime_refusals": counts.runtime_refusals,
            "switchboard_sessions_ended": totals.ended,
            "switchboard_reports": {
                "taken": reports.taken, "duplicate": reports.duplicate, "reordered": reports.reordered,
                "unknown_runtime": reports.unknown_runtime,
            },
            "switchboard_report_fields_dropped": reports.dropped_fields,
            **_by_runtime(fleet, now_ns),
        }  # fmt: skip
        for name, value in one.items():
            yield family(name, METRICS[name], {"": value})
        for name, values in many.items():
            yield family(name, METRICS[name], values)
        if at.front is not None:
            yield from at.front.collect()


def _by_runtime(fleet: Fleet, now_ns: int) -> dict[str, dict[str, float]]:
    rows = fleet.view.rows()
    known = {row.facts.runtime_id: row.utilisation for row in rows if row.utilisation is not None}
    target = fleet.view.load.rule.capacity.target_utilisation
    return {
        "switchboard_runtime_active_sessions": {row.facts.runtime_id: row.active for row in rows},
        "switchboard_runtime_estimate": {row.facts.runtime_id: row.estimate for row in rows},
        "switchboard_runtime_effective_capacity": {row.facts.runtime_id: row.effective for row in rows},
        "switchboard_runtime_utilisation": dict(known),
        "switchboard_runtime_load": {runtime_id: value / target for runtime_id, value in known.items()},
        "switchboard_report_age_seconds": {
            row.facts.runtime_id: (now_ns - row.arrived_ns) / NS_PER_S for row in rows if row.arrived_ns is not None
        },
    }


def family(name: str, description: Description, values: Mapping[str, float] | Mapping[tuple[str, str], float]) -> Metric:
    """By label, or by several."""
    kind = CounterMetricFamily if description.kind == "counter" else GaugeMetricFamily
    family = kind(name, description.help, labels=description.labels)
    for label, value in values.items():
        labels = [label] if isinstance(label, str) else list(label)
        family.add_metric(labels if description.labels else [], value)
    return family
