"""Looking for a runtime that takes a call over: reserve, dial, agree on asides; elsewhere when that fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import anyio
import structlog

from balancer.front.dial import DialFailed, RuntimeConnection, dial_runtime
from balancer.front.places import Places
from balancer.front.upgrade import Upgrade
from balancer.placement.errors import PlacementRefused
from balancer.placement.placement import Placement
from balancer.routing.request import PlacementRequest
from runtime.primitives.backoff import Backoff
from runtime.primitives.rng import Rng

__all__ = ["Search", "Searcher"]

_DIALS: Final = 3
"""Runtimes that admit and cannot be reached, before those that failed get another chance."""
_LONGEST_WAIT_S: Final = 0.5


@dataclass(slots=True)
class Search:
    """One call that looks for its next runtime. Ends in `found` or `not_found`, or in neither after `stop`."""

    request: PlacementRequest
    """Without `is_adoption` the session has begun nowhere yet, and is placed as a new one."""
    upgrade: Upgrade
    only_runtime: str
    """Where alone it may go; empty: anywhere."""
    never: frozenset[tuple[str, int]]
    """Runtime lives (id, incarnation) that must not get it: it is there."""
    rather_not: frozenset[tuple[str, int]]
    """Those that get it only where all others refuse: it failed there before."""
    is_persistent: bool
    """Tries again after everybody refused, until `within_s` is over; else one round is enough."""
    within_s: float
    next_epoch: Callable[[], int]
    """Each try is a leg of its own."""
    found: Callable[[RuntimeConnection, Placement], None]
    not_found: Callable[[], None]
    is_stopped: bool = False
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def stop(self) -> None:
        """What it holds is given back. Idempotent."""
        self.is_stopped = True
        self.scope.cancel()

    def begin_again(self) -> None:
        """The whole time from now on."""
        self.scope.deadline = anyio.current_time() + self.within_s


class Searcher:
    def __init__(self, placer: Places, dial_timeout_s: float, rng: Rng, log: structlog.typing.FilteringBoundLogger) -> None:
        self._placer = placer
        self._dial_timeout_s = dial_timeout_s
        self._rng = rng
        self._log = log
        self.dial_failures = 0

    async def run(self, search: Search) -> None:
        """Never raises but for cancellation from outside; then the call is over anyway."""
        if search.is_stopped:
            return
        search.begin_again()
        with search.scope:
            try:
                await self._run(search)
            except Exception:
                self._log.exception("a search for a runtime failed", session_id=search.request.session_id)
            else:
                return
        if not search.is_stopped:
            search.not_found()

    async def _run(self, search: Search) -> None:
        backoff = Backoff(self._rng, longest_s=_LONGEST_WAIT_S)
        not_at = search.never | search.rather_not
        while True:
            failed: set[str] = set()
            for _ in range(_DIALS):
                try:
                    placement = await self._placer.adopt(_request(search, failed), not_at)
                except PlacementRefused as refused:
                    self._log.info("no place for a move", session_id=search.request.session_id, code=refused.code)
                    break
                connection = await self._dial(search, placement)
                if connection is not None:
                    if search.is_stopped:  # in the very step in which the runtime answered
                        connection.transport.abort()
                    else:
                        search.found(connection, placement)
                    return
                failed.add(placement.runtime_id)
            if not search.is_persistent:
                search.not_found()
                return
            not_at = search.never
            await anyio.sleep(backoff.next_wait_s())

    async def _dial(self, search: Search, placement: Placement) -> RuntimeConnection | None:
        try:
            connection = await dial_runtime(search.upgrade, placement, self._dial_timeout_s)
        except DialFailed as failure:
            cause = str(failure)
        except BaseException:  # cancelled: the place goes back
            self._placer.release(placement)
            raise
        else:
            if connection.has_asides and not connection.transport.is_closing():
                return connection
            connection.transport.abort()
            cause = "it left at once" if connection.has_asides else "it does not speak asides"
        self.dial_failures += 1
        self._placer.fail(placement, cause)
        self._log.warning("dial failed", session_id=placement.session_id, runtime_id=placement.runtime_id, cause=cause)
        return None


def _request(search: Search, failed: set[str]) -> PlacementRequest:
    return replace(
        search.request,
        epoch=search.next_epoch(),
        only_runtime=search.only_runtime,
        avoid=frozenset(failed),
    )
