"""The metrics of a relay process: its own connections and calls, its moves, and whether its control is there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from balancer.telemetry.metrics import Description, FrontNumbers, family, move_histogram
from runtime.primitives.clock import NS_PER_S

__all__ = ["RELAY_METRICS", "RelayMetrics"]

RELAY_METRICS: Final = MappingProxyType({
    "switchboard_control_attached": Description("gauge", "0 or 1", "1 while this relay has a stream to its control."),
    "switchboard_control_attachments": Description("counter", "streams", "Times that the control took this relay in."),
})  # fmt: skip
"""Beside those of the front, in the role `relay` only."""


class RelayMetrics(Collector):
    """Its own registry, nothing global. Also the front's observer."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._move = move_histogram(self._registry)
        self._front: FrontNumbers | None = None
        self._control: Callable[[], tuple[bool, int]] = lambda: (False, 0)

    def attach(self, front: FrontNumbers, control: Callable[[], tuple[bool, int]]) -> None:
        """Once, before the first scrape. `control`: whether it is there, and how often it was found."""
        self._front, self._control = front, control
        self._registry.register(self)

    def moved(self, kind: str, result: str, took_ns: int) -> None:
        if result == "moved":
            self._move.labels(kind).observe(took_ns / NS_PER_S)

    def render(self) -> tuple[bytes, str]:
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def collect(self) -> Iterable[Metric]:
        is_attached, attachments = self._control()
        for name, value in zip(RELAY_METRICS, (float(is_attached), attachments), strict=True):
            yield family(name, RELAY_METRICS[name], {"": value})
        if self._front is not None:
            yield from self._front.collect()
