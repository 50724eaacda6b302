"""What operators may change while calls go on."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from balancer.routing.policy_options import PolicyOptions
from balancer.routing.router import Router

__all__ = ["Controls"]


@dataclass(frozen=True, slots=True)
class Controls:
    router: Router
    options: PolicyOptions
    log: structlog.typing.FilteringBoundLogger

    def use_policy(self, name: str) -> str:
        """From the next decision on; gives the name of the policy before. Live sessions and placements on their way are not
        touched. Raises UnknownPolicy, which names those that are allowed."""
        policy = self.options.make(name)
        before = self.router.policy.name
        if name != before:
            self.router.use(policy)
            self.log.info("policy changed", before=before, now=name)
        return before
