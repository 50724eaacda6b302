"""What operators may change while calls go on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from balancer.routing.policy_options import PolicyOptions
from balancer.routing.router import Router

__all__ = ["Controls"]


@dataclass(frozen=True, slots=True)
class Controls:
    router: Router
    options: PolicyOptions
    ask_to_drain: Callable[[str], bool]
    """False: no such runtime is enrolled."""
    is_enrolled: Callable[[str], bool]
    ask_to_move: Callable[[str, str], Awaitable[str]]
    """A session, and the runtime it is to go to (empty: any other): why it cannot be, or nothing."""
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

    def drain(self, runtime_id: str) -> bool:
        """Asks a runtime to take nothing new and to leave when it is empty; its calls move. False: it is not enrolled."""
        is_asked = self.ask_to_drain(runtime_id)
        if is_asked:
            self.log.info("drain asked for", runtime_id=runtime_id)
        return is_asked

    async def move(self, session_id: str, to: str) -> str:
        """Moves one call in the middle of whatever goes on. Why it cannot be, or nothing: it has begun."""
        is_somewhere = not to or self.is_enrolled(to)
        problem = await self.ask_to_move(session_id, to) if is_somewhere else f"no runtime {to[:64]!r} is enrolled"
        self.log.info("move asked for", session_id=session_id, to=to, problem=problem)
        return problem
