"""What is counted and told about placements."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["PlacementCounts", "PlacementObserver"]


class PlacementObserver(Protocol):
    def decided(self, elapsed_ns: int) -> None:
        """The pure decision alone."""
        ...

    def finished(self, outcome: str, elapsed_ns: int) -> None:
        """The whole placement, reservation and waiting included. `outcome`: `placed` or the refusal's code."""
        ...


@dataclass(slots=True)
class PlacementCounts:
    """attempted = placed + refused + abandoned + being placed now."""

    attempted: int = 0
    placed: int = 0
    abandoned: int = 0
    """The caller gave up while it was being placed."""
    refused: Counter[str] = field(default_factory=Counter)
    runtime_refusals: Counter[str] = field(default_factory=Counter)
    """Single runtimes that were asked and did not admit, by reason."""
