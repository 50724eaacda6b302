"""Where callers wait for a place: woken by news of the fleet, never looking by the clock alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio

from balancer.placement.waiting import QueuePlace, Waiter, WaitingQueue, WaitingRule, estimated_wait_s
from balancer.routing.fleet_view import FleetView
from balancer.routing.pool import pool_key
from balancer.routing.request import PlacementRequest
from runtime.primitives.clock import NS_PER_S, Clock

__all__ = ["WaitingRoom"]

_PAUSE_NS: Final = NS_PER_S // 10
"""After a runtime that looked open gave no place, before anybody is asked again: its answer is news, and would wake at once."""


class WaitingRoom:
    """One for a placer. News wakes those whose turn it is, and they look for themselves."""

    def __init__(self, rule: WaitingRule, view: FleetView, clock: Clock) -> None:
        self.rule = rule
        self.queue = WaitingQueue(rule.places)
        self._view = view
        self._clock = clock
        self._bells: dict[int, anyio.Event] = {}
        view.listener = self.wake

    def would_wait(self, request: PlacementRequest) -> bool:
        """Whether somebody with the same needs came first and there is room to wait behind."""
        queue = self.queue
        return 0 < len(queue) < queue.places and queue.waits(pool_key(request))

    def enter(self, request: PlacementRequest) -> Waiter | None:
        """None: no room, or nobody may wait at all. Whoever enters must `leave`."""
        waiter, put_out = self.queue.join(request.session_id, request.priority, pool_key(request), self._clock.now_ns())
        if put_out is not None:
            self._ring(put_out)
        if waiter is not None:
            self._bells[waiter.number] = anyio.Event()
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Placed, refused or gone: the next one's turn."""
        self._bells.pop(waiter.number, None)
        self.queue.leave(waiter)
        self.wake()

    def wake(self) -> None:
        """Something may have become free. Cheap where nobody waits."""
        if self._bells:
            for waiter in self.queue.heads():
                self._ring(waiter)

    def put_all_out(self) -> None:
        for waiter in self.queue.waiters():
            self.queue.leave(waiter)
            self._ring(waiter)

    async def turn(self, waiter: Waiter, is_open: Callable[[], bool], *, after_a_refusal: bool) -> bool:
        """Waits until `is_open` on this waiter's turn. False: the time is over, or it was put out. Cancelled: `leave` it."""
        until_ns = waiter.since_ns + int(self.rule.timeout_s * NS_PER_S)
        not_before_ns = self._clock.now_ns() + _PAUSE_NS if after_a_refusal else 0
        while waiter in self.queue:
            now_ns = self._clock.now_ns()
            if now_ns >= until_ns:
                return False
            next_ns = until_ns
            if now_ns < not_before_ns:
                next_ns = min(next_ns, not_before_ns)
            elif waiter in self.queue.heads():
                if is_open():
                    return True
                next_ns = min(next_ns, self._view.next_opening_ns(now_ns))
            bell = self._bells[waiter.number] = anyio.Event()
            with anyio.move_on_after((next_ns - now_ns) / NS_PER_S):
                await bell.wait()
        return False

    def place_of(self, waiter: Waiter) -> QueuePlace:
        return self._place(self.queue.place_of(waiter))

    def place_for(self, request: PlacementRequest) -> QueuePlace:
        return self._place(self.queue.place_for(request.priority))

    def _place(self, place: int) -> QueuePlace:
        return QueuePlace(place, estimated_wait_s(place, self._view.ends_per_s))

    def _ring(self, waiter: Waiter) -> None:
        bell = self._bells.get(waiter.number)
        if bell is not None:
            bell.set()
