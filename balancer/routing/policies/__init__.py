"""The policies by their names in settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from balancer.routing.policies.consistent_hash import ConsistentHash
from balancer.routing.policies.effective_capacity import EffectiveCapacity
from balancer.routing.policies.headroom import Headroom
from balancer.routing.policies.least_sessions import LeastSessions
from balancer.routing.policies.local_least_connections import LocalLeastConnections
from balancer.routing.policies.prequal import Prequal
from balancer.routing.policies.response_time import ResponseTime
from balancer.routing.policies.round_robin import RoundRobin
from balancer.routing.policies.session_aware import SessionAware
from balancer.routing.policies.static_slots import StaticSlots
from balancer.routing.policies.two_choices import TwoChoices
from balancer.routing.policies.uniform_random import UniformRandom
from balancer.routing.policies.weighted_least_connection import WeightedLeastConnection
from balancer.routing.policies.weighted_remaining import WeightedRemaining
from balancer.routing.policies.weighted_round_robin import WeightedRoundRobin
from balancer.routing.policy import Policy

__all__ = ["POLICIES"]

POLICIES: Final[Mapping[str, Callable[[], Policy]]] = MappingProxyType(
    {
        "session_aware": SessionAware,
        "round_robin": RoundRobin,
        "random": UniformRandom,
        "least_sessions": LeastSessions,
        "local_least_connections": LocalLeastConnections,
        "two_choices": TwoChoices,
        "weighted_round_robin": WeightedRoundRobin,
        "prequal": Prequal,
        "static_slots": StaticSlots,
        "effective_capacity": EffectiveCapacity,
        "headroom": Headroom,
        "weighted_remaining": WeightedRemaining,
        "weighted_least_connection": WeightedLeastConnection,
        "consistent_hash": ConsistentHash,
        "response_time": ResponseTime,
    }
)
