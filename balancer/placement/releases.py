"""Giving places back in the background: by an owner that outlives the caller who gave up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import anyio

from balancer.fleet.seat import Seat
from balancer.placement.reservation import Reservations
from runtime.primitives.backoff import Backoff
from runtime.primitives.rng import Rng

__all__ = ["Release", "Releases"]

_WAITING: Final = 1024
_WORKERS: Final = 4
_TRIES: Final = 4


@dataclass(frozen=True, slots=True)
class Release:
    seat: Seat
    number: int
    session_id: str
    epoch: int
    ticket: str = ""
    """The place's name. Empty: no answer ever came, the placement itself is named."""


class Releases:
    """At most 1024 wait; beyond that the newest is dropped and counted, and the runtime's own ticket expiry frees the place."""

    def __init__(self, reservations: Reservations, rng: Rng) -> None:
        self._reservations = reservations
        self._rng = rng
        self._send, self._receive = anyio.create_memory_object_stream[Release](_WAITING)
        self.dropped = 0

    @property
    def waiting(self) -> int:
        return self._send.statistics().current_buffer_used

    def submit(self, release: Release) -> None:
        """Never blocks; may be called while cancelled."""
        try:
            self._send.send_nowait(release)
        except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.dropped += 1
            self._settle(release)

    async def run(self) -> None:
        """Ends only by cancellation; what still waits then is left to the runtimes' expiry."""
        async with self._send, self._receive, anyio.create_task_group() as tasks:
            for _ in range(_WORKERS):
                tasks.start_soon(self._work)

    async def _work(self) -> None:
        async for release in self._receive:
            await self._release(release)

    async def _release(self, release: Release) -> None:
        backoff = Backoff(self._rng, longest_s=2.0)
        for _ in range(_TRIES):
            if await self._reservations.release(release.seat, release.number, release.session_id, release.epoch, release.ticket):
                return
            await anyio.sleep(backoff.next_wait_s())
        # The runtime is gone or deaf. A place held there expires by itself; ours must not be counted for ever.
        self._settle(release)

    def _settle(self, release: Release) -> None:
        self._reservations.fleet.settle_placement(release.seat, release.number, admitted=False)
