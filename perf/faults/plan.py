"""Which connections a fault run makes and how each ends; the same seed gives the same plan. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from runtime.primitives.rng import Rng

__all__ = ["Connection", "Ending", "Wire", "count_endings", "make_plan"]


class Wire(StrEnum):
    WEBSOCKET = "websocket"
    GRPC = "grpc"


class Ending(StrEnum):
    """What the caller does. All but the last two of them first become real sessions."""

    CLOSE = "close"
    """The wire's goodbye: a close frame, an end message."""
    RESET = "reset"
    """The connection is torn: TCP reset, gRPC cancel."""
    HALF_CLOSE = "half_close"
    """The caller's side of the stream ends without a word."""
    BREACH = "breach"
    """The caller breaks the wire's contract."""
    HALF_OPEN = "half_open"
    """The caller is there no more, and nothing tells so: pings stay unanswered (gRPC: the network loses everything)."""
    STAY = "stay"
    """Held until a worker is killed or the run's end closes it."""
    SILENT = "silent"
    """Connects and says nothing, then leaves."""
    GARBAGE = "garbage"
    """Says nothing that is part of any protocol."""


_SHARES: Final = {
    Ending.CLOSE: 0.40,
    Ending.RESET: 0.25,
    Ending.HALF_CLOSE: 0.15,
    Ending.BREACH: 0.06,
    Ending.STAY: 0.04,
    Ending.SILENT: 0.05,
    Ending.GARBAGE: 0.045,
    Ending.HALF_OPEN: 0.005,
}
assert abs(sum(_SHARES.values()) - 1.0) < 1e-9


@dataclass(frozen=True, slots=True)
class Connection:
    """`worker`: index of the runtime that it goes to."""

    number: int
    wire: Wire
    ending: Ending
    worker: int


def make_plan(connections: int, workers: int, rng: Rng) -> list[Connection]:
    """So many connections, each an independent draw."""
    plan = []
    for number in range(connections):
        wire = Wire.GRPC if rng.random() < 0.4 else Wire.WEBSOCKET
        plan.append(Connection(number, wire, _draw(rng.random()), int(rng.random() * workers)))
    return plan


def _draw(uniform: float) -> Ending:
    upto = 0.0
    for ending, share in _SHARES.items():
        upto += share
        if uniform < upto:
            return ending
    return Ending.CLOSE


def count_endings(plan: list[Connection]) -> dict[str, int]:
    """How many of each wire and ending, for the report."""
    counted = Counter(f"{each.wire}.{each.ending}" for each in plan)
    return dict(sorted(counted.items()))
