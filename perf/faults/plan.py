"""Which connections a fault run makes, how each comes in and how each ends; the same seed gives the same plan. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Final

from runtime.primitives.reasons import EndReason
from runtime.primitives.rng import Rng

__all__ = ["REASONS", "Connection", "Door", "Ending", "Outcome", "Wire", "count_endings", "make_plan", "planned_outcome", "ways"]


class Wire(StrEnum):
    WEBSOCKET = "websocket"
    GRPC = "grpc"


class Door(StrEnum):
    """How the caller comes to its runtime."""

    DIRECT = "direct"
    ASSIGNED = "assigned"
    """Asks the balancer, and goes where it is sent with its ticket."""
    RELAYED = "relayed"
    """Calls the balancer's public port."""


class Ending(StrEnum):
    """What the caller does, or waits for. All but the last three first become real sessions."""

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
    IDLE = "idle"
    """The caller answers pings and says nothing more, until it is ended."""
    LONG = "long"
    """The caller goes on and on, until the longest length is reached."""
    FAULT = "fault"
    """The agent raises what nobody may catch: a fault on the runtime's side."""
    SLOW = "slow"
    """The caller asks for much and does not read it."""
    STAY = "stay"
    """Held for some seconds, so that a killed worker always has live sessions; then torn."""
    DRAIN = "drain"
    """Held at the end of the run, while the workers are told to leave and to be replaced."""
    SILENT = "silent"
    """Connects and says nothing, then leaves."""
    GARBAGE = "garbage"
    """Says nothing that is part of any protocol."""
    ABANDON = "abandon"
    """Is given a place by the balancer and never comes."""


class Outcome(StrEnum):
    """How it went, as the caller saw it."""

    STARTED = "started"
    """The session was acknowledged, and ended as was meant."""
    UNSPOKEN = "unspoken"
    """Meant to become no session."""
    RESERVED = "reserved"
    """Got a place, and left it."""
    CUT = "cut"
    """Ended before its time."""
    REFUSED = "refused"
    """Was given no place."""
    UNANSWERED = "unanswered"
    """The connection failed before the session was acknowledged."""
    OVERDUE = "overdue"
    """Neither answered nor ended in time."""


REASONS: Final = {
    Ending.CLOSE: EndReason.CLOSED_BY_CALLER,
    Ending.RESET: EndReason.CONNECTION_LOST,
    Ending.HALF_CLOSE: EndReason.CONNECTION_LOST,
    Ending.BREACH: EndReason.PROTOCOL_ERROR,
    Ending.HALF_OPEN: EndReason.CONNECTION_LOST,
    Ending.IDLE: EndReason.IDLE_TIMEOUT,
    Ending.LONG: EndReason.MAXIMUM_LENGTH,
    Ending.FAULT: EndReason.HANDLER_ERROR,
    Ending.SLOW: EndReason.SLOW_CALLER,
    Ending.STAY: EndReason.CONNECTION_LOST,
    Ending.DRAIN: EndReason.DRAINED,
}
"""The reason that each kind of session has to end with. The other endings never become sessions."""

_SHARES: Final = {
    Ending.CLOSE: 0.395,
    Ending.RESET: 0.25,
    Ending.HALF_CLOSE: 0.145,
    Ending.BREACH: 0.06,
    Ending.STAY: 0.04,
    Ending.SILENT: 0.045,
    Ending.GARBAGE: 0.03,
    Ending.ABANDON: 0.01,
    Ending.IDLE: 0.005,
    Ending.LONG: 0.005,
    Ending.FAULT: 0.005,
    Ending.SLOW: 0.003,
    Ending.HALF_OPEN: 0.004,
    Ending.DRAIN: 0.003,
}
assert abs(sum(_SHARES.values()) - 1.0) < 1e-9
_BY_RELAY: Final = frozenset({Ending.CLOSE, Ending.RESET, Ending.HALF_CLOSE, Ending.STAY, Ending.IDLE, Ending.LONG, Ending.DRAIN})
_DIRECT_ONLY: Final = frozenset({Ending.SILENT, Ending.GARBAGE})


@dataclass(frozen=True, slots=True)
class Connection:
    """`worker`: index of the runtime that it goes to, where it goes directly; the balancer chooses for the others."""

    session_id: str
    wire: Wire
    door: Door
    ending: Ending
    worker: int

    @property
    def way(self) -> str:
        return f"{self.wire}.{self.door}.{self.ending}"

    @property
    def reason(self) -> EndReason | None:
        """With which its session has to end; None: it never becomes one."""
        if self.door is Door.RELAYED and self.ending is Ending.DRAIN:
            return EndReason.MAXIMUM_LENGTH  # it goes on at another worker
        return REASONS.get(self.ending)


def ways() -> list[tuple[Wire, Door, Ending]]:
    """Every combination that there is."""
    return [(wire, door, ending) for wire, ending, door in product(Wire, Ending, Door) if _exists(wire, door, ending)]


def _exists(wire: Wire, door: Door, ending: Ending) -> bool:
    if ending is Ending.ABANDON:
        return door is Door.ASSIGNED and wire is Wire.WEBSOCKET  # it never comes to a wire
    match door:
        case Door.DIRECT:
            return True
        case Door.ASSIGNED:
            return ending not in _DIRECT_ONLY
        case Door.RELAYED:
            return wire is Wire.WEBSOCKET and ending in _BY_RELAY


def planned_outcome(ending: Ending) -> Outcome:
    if ending is Ending.ABANDON:
        return Outcome.RESERVED
    return Outcome.STARTED if ending in REASONS else Outcome.UNSPOKEN


def make_plan(connections: int, workers: int, rng: Rng, name: str = "f") -> list[Connection]:
    """So many connections, each an independent draw, and at last every way once: no kill comes after those."""
    last = sorted(ways(), key=lambda _: rng.random())[:connections]
    drawn = [_draw(rng) for _ in range(connections - len(last))] + last
    return [Connection(f"{name}-{number}", *way, int(rng.random() * workers)) for number, way in enumerate(drawn)]


def _draw(rng: Rng) -> tuple[Wire, Door, Ending]:
    wire = Wire.GRPC if rng.random() < 0.4 else Wire.WEBSOCKET
    ending = _ending(rng.random())
    doors = [door for door in Door if _exists(wire, door, ending)]
    if not doors:
        return Wire.WEBSOCKET, Door.ASSIGNED, ending
    chance = rng.random()  # three of four go directly, where that is possible
    return wire, doors[0] if chance < 0.75 else doors[int((chance - 0.75) * 4 * len(doors))], ending


def _ending(uniform: float) -> Ending:
    upto = 0.0
    for ending, share in _SHARES.items():
        upto += share
        if uniform < upto:
            return ending
    return Ending.CLOSE


def count_endings(plan: Iterable[Connection]) -> dict[str, int]:
    """How many of each wire, door and ending, for the report."""
    return dict(sorted(Counter(each.way for each in plan).items()))
