"""The settings of the public port."""

from __future__ import annotations

from dataclasses import dataclass, field

from balancer.front.drains import DrainRule
from balancer.front.relay_rule import RelayRule

__all__ = ["FrontRule"]


@dataclass(frozen=True, slots=True)
class FrontRule:
    relay: RelayRule = field(default_factory=RelayRule)
    drain: DrainRule = field(default_factory=DrainRule)
    head_timeout_ms: int = 5_000
    """For a request to be whole, and for a telephone's `start` after its upgrade."""
    dial_timeout_ms: int = 2_000
    max_connections: int = 10_000
    tend_interval_ms: int = 250
