"""What a succession needs of its relay and of whoever holds all calls."""

from __future__ import annotations

from typing import Protocol

from balancer.front.leg_switch import TwoSided
from balancer.front.move_counts import MoveKind, MoveResult
from balancer.front.relay_leg import Leg, LegOwner
from balancer.front.relay_rule import RelayEnd, RelayRule
from balancer.front.search import Search

__all__ = ["RelayedCall", "SuccessionOwner"]


class SuccessionOwner(Protocol):
    def mask_key(self) -> bytes: ...

    def search(self, search: Search) -> None:
        """Looks for a place and connects, in a task of its own."""
        ...

    def moved(self, call: RelayedCall, kind: MoveKind, result: MoveResult, took_ns: int) -> None:
        """A move came to its end."""
        ...

    def replayed(self, size_bytes: int) -> None: ...


class RelayedCall(TwoSided, LegOwner, Protocol):
    """The relay, as its succession sees it."""

    session_id: str
    rule: RelayRule

    @property
    def is_closing(self) -> bool: ...

    def runtime_lost(self, leg: Leg, end: RelayEnd, code: int, text: str) -> None: ...

    def give_up(self, code: int, text: str) -> None: ...

    def write_control(self, leg: Leg, opcode: int, payload: bytes) -> None: ...
