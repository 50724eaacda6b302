"""A policy by its name, made with its options: what configuration and the operators' port choose by."""

from __future__ import annotations

from dataclasses import dataclass, field

from balancer.routing.policies import POLICIES
from balancer.routing.policies.consistent_hash import VIRTUAL_NODES, ConsistentHash
from balancer.routing.policies.weighted_remaining import Remaining, WeightedRemaining
from balancer.routing.policy import Policy
from runtime.primitives.errors import Fault, VoiceError

__all__ = ["PolicyOptions", "UnknownPolicy"]


class UnknownPolicy(VoiceError):
    code = "unknown_policy"
    fault = Fault.PEER

    def __init__(self, name: str) -> None:
        self.name = name
        self.allowed = tuple(POLICIES)
        super().__init__(f"policy is {name[:40]!r}; allowed: {', '.join(self.allowed)}")


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """What single policies can be told. Raises ValueError, with the numbers."""

    virtual_nodes: int = VIRTUAL_NODES[0]
    """Of `consistent_hash`: points on the ring for each runtime."""
    remaining: Remaining = field(default_factory=Remaining)
    """Of `weighted_remaining`."""

    def __post_init__(self) -> None:
        if not 1 <= self.virtual_nodes <= 100_000:
            raise ValueError(f"hash_virtual_nodes is {self.virtual_nodes}; allowed: 1 to 100000")

    def make(self, name: str) -> Policy:
        """Without any memory. Raises UnknownPolicy."""
        match name:
            case ConsistentHash.name:
                return ConsistentHash(self.virtual_nodes)
            case WeightedRemaining.name:
                return WeightedRemaining(self.remaining)
        if name not in POLICIES:
            raise UnknownPolicy(name)
        return POLICIES[name]()
