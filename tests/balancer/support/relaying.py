"""A relay's link and placer in this process, without a front, for a control that runs elsewhere in it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import anyio

from balancer.fleet.channels import RuntimeChannels
from balancer.relays.control_link import ControlLink, RelayIdentity
from balancer.relays.remote_placer import RemotePlacer
from balancer.telemetry.logs import make_logger
from runtime.primitives.clock import MonotonicClock
from runtime.primitives.rng import SeededRng

__all__ = ["FakeSide", "Relaying", "relaying"]


@dataclass
class FakeSide:
    """A front that only notes what it is told."""

    suspected: list[tuple[str, int]] = field(default_factory=list)
    drains_tended: int = 0
    wishes: list[tuple[str, str]] = field(default_factory=list)
    problem: str = ""
    numbers: dict[str, float] = field(default_factory=lambda: {"relayed": 2.0})
    moves: dict[tuple[str, str], float] = field(default_factory=lambda: {("planned", "moved"): 3.0})

    def suspect(self, runtime_id: str, incarnation: int) -> None:
        self.suspected.append((runtime_id, incarnation))

    def tend_drains(self) -> None:
        self.drains_tended += 1

    def move(self, session_id: str, to: str) -> str:
        self.wishes.append((session_id, to))
        return self.problem

    def statistics(self) -> Mapping[str, float]:
        return self.numbers

    def move_counts(self) -> Mapping[tuple[str, str], float]:
        return self.moves


@dataclass
class Relaying:
    link: ControlLink
    placer: RemotePlacer
    side: FakeSide
    log: io.StringIO


@contextlib.asynccontextmanager
async def relaying(control: str, relay_id: str = "relay-1", life: int = 7, silence_s: float = 4.0) -> AsyncIterator[Relaying]:
    """Runs until left. Does not wait for the control."""
    log, channels, side = io.StringIO(), RuntimeChannels(), FakeSide()
    identity = RelayIdentity(relay_id, life, "127.0.0.1:1")
    link = ControlLink(control, channels, identity, MonotonicClock(), SeededRng(1), make_logger(log, "debug"), silence_s)
    link.side = side
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.run)
            yield Relaying(link, RemotePlacer(link), side, log)
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(5):
            await channels.close_all()
