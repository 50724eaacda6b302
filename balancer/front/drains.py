"""Moving the calls of runtimes that leave: at once where nobody speaks, the others as soon as that is so or after a while.

A few at a time, so that those who take them over are not flooded; each that ends makes room for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from balancer.continuity.move_table import MoveState
from runtime.primitives.clock import NS_PER_MS

__all__ = ["DrainRule", "Drains", "Movable", "Mover"]

_PLANNED = frozenset({MoveState.SEEKING, MoveState.HANDING_OVER, MoveState.RESTORING})


@dataclass(frozen=True, slots=True)
class DrainRule:
    at_a_time: int = 3
    """A move costs the target work. More at a time are no sooner done, and each takes longer: of fifty calls on two busy cores,
    eight at a time took 0.5 s each, two took 0.09 s."""
    wait_for_quiet_ms: int = 2_000
    """How long a call that is being spoken in may stay for a better moment."""
    again_after_ms: int = 500
    """A move that came to nothing is tried again no sooner."""


class Mover(Protocol):
    """A succession, as a drain sees it."""

    state: MoveState

    @property
    def can_move(self) -> bool: ...

    @property
    def is_quiet(self) -> bool: ...

    def want(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Movable:
    """A call, where it is served, and what moves it."""

    session_id: str
    runtime: tuple[str, int]
    """Id and incarnation."""
    mover: Mover


class Drains:
    """`is_leaving` tells of a runtime life whether it takes its leave."""

    def __init__(self, rule: DrainRule, is_leaving: Callable[[str, int], bool]) -> None:
        self._rule = rule
        self._is_leaving = is_leaving
        self._since_ns: dict[tuple[str, int], int] = {}
        """Runtimes that leave and still have calls, and since when they are seen to."""
        self._tried_ns: dict[str, int] = {}

    def are_due(self, runtimes: Iterable[tuple[str, int]]) -> bool:
        """Whether any of these runtime lives leaves, or one that did was seen to last time: else `tend` has nothing to do."""
        return bool(self._since_ns) or any(self._is_leaving(*each) for each in runtimes)

    def tend(self, calls: Iterable[Movable], now_ns: int) -> None:
        """To be called a few times a second, and whenever a move has ended. O(calls)."""
        leaving: dict[tuple[str, int], bool] = {}
        concerned = []
        for call in calls:
            if call.runtime not in leaving:
                leaving[call.runtime] = self._is_leaving(*call.runtime)
            if leaving[call.runtime]:
                concerned.append(call)
        if not concerned and not self._since_ns:
            return
        self._since_ns = {each: self._since_ns.get(each, now_ns) for each, is_so in leaving.items() if is_so}
        ids = {call.session_id for call in concerned}
        self._tried_ns = {each: tried_ns for each, tried_ns in self._tried_ns.items() if each in ids}
        free = self._rule.at_a_time - sum(call.mover.state in _PLANNED for call in concerned)
        for call in sorted(concerned, key=lambda call: not call.mover.is_quiet):
            if free <= 0:
                return
            if self._is_time(call, now_ns) and call.mover.want():
                self._tried_ns[call.session_id] = now_ns
                free -= 1

    def _is_time(self, call: Movable, now_ns: int) -> bool:
        tried_ns = self._tried_ns.get(call.session_id)
        if not call.mover.can_move or (tried_ns is not None and now_ns - tried_ns < self._rule.again_after_ms * NS_PER_MS):
            return False
        waited_ns = now_ns - self._since_ns[call.runtime]
        return call.mover.is_quiet or waited_ns >= self._rule.wait_for_quiet_ms * NS_PER_MS
