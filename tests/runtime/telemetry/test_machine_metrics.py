"""The shared counters' metrics: what is documented, read at the scrape, and left out while a shard is torn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from runtime.primitives.load_snapshot import LegTotals
from runtime.session.shared_totals import TornShard
from runtime.telemetry.machine_metrics import MachineMetrics

_PAGE = Path(__file__).parents[3] / "docs" / "operations.md"


def _samples(registry: CollectorRegistry) -> dict[str, float]:
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {".".join([each.name, *each.labels.values()]): each.value for family in families for each in family.samples}


def test_the_machines_totals_are_read_at_every_scrape() -> None:
    answers: Iterator[LegTotals] = iter([LegTotals(started=9, lost=2, ended={"drained": 4}), LegTotals(started=10, lost=2)])
    registry = CollectorRegistry()
    registry.register(MachineMetrics(lambda: next(answers)))
    prefix = "switchboard_machine_sessions"
    found = _samples(registry)
    assert found == {
        f"{prefix}_active": 3.0,
        f"{prefix}_started_total": 9.0,
        f"{prefix}_lost_total": 2.0,
        f"{prefix}_ended_total.drained": 4.0,
    }
    assert _samples(registry)[f"{prefix}_active"] == 8.0
    documented = set(re.findall(r"\| (switchboard_machine_\w+)", MachineMetrics.__doc__ or ""))
    assert documented == {name.partition(".")[0] for name in found}
    page = _PAGE.read_text(encoding="utf-8")
    assert [name for name in documented if f"`{name}" not in page] == []


def test_a_torn_shard_leaves_them_out_of_one_scrape() -> None:
    def torn() -> LegTotals:
        raise TornShard("shard 0")

    registry = CollectorRegistry()
    registry.register(MachineMetrics(torn))
    assert _samples(registry) == {}
