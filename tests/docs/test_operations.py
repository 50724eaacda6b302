"""The operators' page names every setting with its default, and every metric, as the code has them."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from pathlib import Path

import pytest

from balancer.app.settings import BalancerSettings
from balancer.telemetry.metrics import FRONT_GAUGES, METRICS
from balancer.telemetry.relay_metrics import RELAY_METRICS
from runtime.app.settings import RuntimeSettings
from runtime.telemetry.metrics import RuntimeMetrics

_PAGE = Path(__file__).parents[2].joinpath("docs", "operations.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("settings", [BalancerSettings, RuntimeSettings])
def test_every_setting_is_there_with_its_default(settings: type) -> None:
    missing = []
    for field in dataclasses.fields(settings):
        default = field.default.value if isinstance(field.default, StrEnum) else field.default
        shown = ",".join(default) if isinstance(default, tuple) else str(default)
        cell = f"`{shown}`" if shown else ""
        if f"| `{field.name}` | {cell}" not in _PAGE:
            missing.append((field.name, shown))
    assert missing == []


def test_every_metric_of_the_balancer_is_there() -> None:
    described = {**METRICS, **RELAY_METRICS, **{f"switchboard_relay_{name}": each for name, each in FRONT_GAUGES.items()}}
    names = [name + ("_total" if each.kind == "counter" else "") for name, each in described.items()]
    assert [name for name in names if f"`{name}" not in _PAGE] == []


def test_every_metric_of_a_runtime_is_there() -> None:
    families = RuntimeMetrics(lambda _: None, lambda: None).registry.collect()
    names = [family.name + ("_total" if family.type == "counter" else "") for family in families]
    assert names
    assert [name for name in names if f"`{name}" not in _PAGE] == []
