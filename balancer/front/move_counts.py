"""What became of the moves of calls from one runtime to another."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

__all__ = ["MoveCounts", "MoveKind", "MoveObserver", "MoveResult"]


class MoveKind(StrEnum):
    """Why a call moves."""

    PLANNED = "planned"
    """A drain, or an operator's wish."""
    CRASH = "crash"
    """The runtime's connection broke, or it broke the protocol."""
    SILENT = "silent"
    """The runtime has not been heard for too long."""


class MoveResult(StrEnum):
    MOVED = "moved"
    STAYED = "stayed"
    """It came to nothing, and the runtime before serves on."""
    GAVE_UP = "gave_up"
    """Nobody adopted the call: it ended."""
    LEFT = "left"
    """The call ended while it was moving."""


class MoveObserver(Protocol):
    def moved(self, kind: MoveKind, result: MoveResult, took_ns: int) -> None: ...


@dataclass(slots=True)
class MoveCounts:
    ended: Counter[tuple[MoveKind, MoveResult]] = field(default_factory=Counter)
    replayed_bytes: int = 0
    replayed_messages: int = 0

    def total(self, result: MoveResult) -> int:
        return sum(count for (_, each), count in self.ended.items() if each is result)
