"""The policies by their names in settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from balancer.routing.policies.least_sessions import LeastSessions
from balancer.routing.policies.round_robin import RoundRobin
from balancer.routing.policies.session_aware import SessionAware
from balancer.routing.policies.uniform_random import UniformRandom
from balancer.routing.policy import Policy

__all__ = ["POLICIES"]

POLICIES: Final[Mapping[str, Callable[[], Policy]]] = MappingProxyType(
    {
        "session_aware": SessionAware,
        "round_robin": RoundRobin,
        "random": UniformRandom,
        "least_sessions": LeastSessions,
    }
)
