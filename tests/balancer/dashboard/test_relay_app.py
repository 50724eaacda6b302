"""A relay's own operator port."""

from __future__ import annotations

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from balancer.dashboard.relay_app import relay_app
from balancer.telemetry.metrics import FRONT_GAUGES, FrontNumbers
from balancer.telemetry.relay_metrics import RELAY_METRICS, RelayMetrics

pytestmark = pytest.mark.anyio


async def test_metrics_are_the_fronts_and_the_links_and_readiness_is_the_controls_word() -> None:
    metrics, standing = RelayMetrics(), [False]
    metrics.attach(
        FrontNumbers(lambda: {**dict.fromkeys(FRONT_GAUGES, 0.0), "relayed": 3.0}, lambda: {("crash", "moved"): 2.0}),
        lambda: (standing[0], 5),
    )
    metrics.moved("crash", "moved", 70_000_000)
    metrics.moved("crash", "gave_up", 10_000_000_000)
    transport = httpx.ASGITransport(relay_app(metrics.render, lambda: standing[0]))
    async with httpx.AsyncClient(transport=transport, base_url="http://relay") as http:
        assert (await http.get("/readyz")).status_code == 503
        assert (await http.get("/healthz")).status_code == 200
        standing[0] = True
        assert (await http.get("/readyz")).status_code == 200
        text = (await http.get("/metrics")).text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    fronts = {f"switchboard_relay_{name}" for name in FRONT_GAUGES}
    declared = {*RELAY_METRICS, *fronts, "switchboard_moves", "switchboard_move_seconds"}
    assert {name for name in families if not name.endswith("_created")} == declared
    values = {(sample.name, *sample.labels.values()): sample.value for each in families.values() for sample in each.samples}
    assert values["switchboard_control_attached",] == 1
    assert values["switchboard_control_attachments_total",] == 5
    assert values["switchboard_relay_relayed",] == 3
    assert values["switchboard_moves_total", "crash", "moved"] == 2
    assert (values["switchboard_move_seconds_count", "crash"], values["switchboard_move_seconds_sum", "crash"]) == (1, 0.07)
