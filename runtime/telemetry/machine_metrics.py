"""The machine's shared counters at a worker's scrape: all workers of a machine show the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from runtime.primitives.load_snapshot import LegTotals
from runtime.session.shared_totals import TornShard

__all__ = ["MachineMetrics"]


class MachineMetrics(Collector):
    """Read when scraped. `totals` may raise TornShard: then this scrape goes without them.

    | metric | unit | meaning |
    |---|---|---|
    | switchboard_machine_sessions_active | sessions | live on the machine now |
    | switchboard_machine_sessions_started_total | sessions | started since its supervisor began |
    | switchboard_machine_sessions_ended_total{reason} | sessions | ended, by reason |
    | switchboard_machine_sessions_lost_total | sessions | of workers that died |
    """

    def __init__(self, totals: Callable[[], LegTotals]) -> None:
        self._totals = totals

    def collect(self) -> Iterator[Metric]:
        try:
            totals = self._totals()
        except TornShard:  # a worker has just died in mid-change; its supervisor mends that in a moment
            return
        prefix = "switchboard_machine_sessions"
        yield GaugeMetricFamily(f"{prefix}_active", "Live sessions of the machine", value=totals.active)
        yield CounterMetricFamily(f"{prefix}_started", "Sessions started since the supervisor began", value=totals.started)
        yield CounterMetricFamily(f"{prefix}_lost", "Sessions of workers that died", value=totals.lost)
        ended = CounterMetricFamily(f"{prefix}_ended", "Ended sessions by reason", labels=["reason"])
        for reason, count in totals.ended.items():
            ended.add_metric([reason], count)
        yield ended
