"""A place for a session: decide, ask, wait for a turn where that is allowed, and keep the books of attempts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from balancer.fleet.fleet import Fleet
from balancer.placement.counts import PlacementCounts, PlacementObserver
from balancer.placement.errors import PlacementRefused, RefusalCode
from balancer.placement.escalation import Escalation, Findings
from balancer.placement.pending_places import PendingPlaces
from balancer.placement.placement import Placement
from balancer.placement.releases import Releases
from balancer.placement.reservation import Door, Reservations
from balancer.placement.waiting import QueuePlace, Waiter, WaitingRule
from balancer.placement.waiting_room import WaitingRoom
from balancer.routing.decision import Decision, RuntimeRefusal
from balancer.routing.decision_log import DecisionLog, PlacementRecord
from balancer.routing.request import PlacementRequest
from balancer.routing.router import Router
from runtime.primitives.clock import Clock
from runtime.primitives.reasons import RefusalReason
from runtime.primitives.rng import Rng

__all__ = ["Placer"]

_RETRY_AFTER_S: Final = 1.0
_ROUNDS: Final = 2
"""Decisions a placement: the second sees what the answers to the first brought."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """An attempt that gave no place."""

    decision: Decision
    refusal: RefusalCode
    message: str
    runtimes: tuple[RuntimeRefusal, ...]
    retry_after_s: float
    was_asked: bool
    """Runtimes looked open and gave no place."""


class Placer:
    def __init__(
        self,
        fleet: Fleet,
        router: Router,
        reservations: Reservations,
        releases: Releases,
        log: DecisionLog,
        observer: PlacementObserver,
        clock: Clock,
        rng: Rng,
        waiting: WaitingRule | None = None,
    ) -> None:
        self.counts = PlacementCounts()
        self.log = log
        self.router = router
        self.room = WaitingRoom(waiting or WaitingRule(), fleet.view, clock)
        self._is_closing = False
        self._fleet = fleet
        self._escalation = Escalation(fleet, reservations, releases, self.counts, clock)
        self._observer = observer
        self._clock = clock
        self._rng = rng
        self._placing: set[str] = set()
        self._held: set[str] = set()
        self._pending = PendingPlaces(fleet.books.last_epoch)

    @property
    def is_closing(self) -> bool:
        return self._is_closing

    @is_closing.setter
    def is_closing(self, is_closing: bool) -> None:
        """Closing takes nothing new and sends those who wait away."""
        self._is_closing = is_closing
        if is_closing:
            self.room.put_all_out()

    @property
    def being_placed(self) -> int:
        return len(self._placing)

    async def place(self, request: PlacementRequest, door: Door) -> Placement:
        """Holds a place for the session's next leg, or raises PlacementRefused. The epoch is set here.

        Cancellation leaves nothing held: what may have been reserved is released in the background.
        """
        self.counts.attempted += 1
        return await self._place(request, door)

    async def adopt(self, request: PlacementRequest, lost: frozenset[tuple[str, int]]) -> Placement:
        """A place for the next leg of a session whose caller is held here (its epoch set): at once, or raises PlacementRefused,
        also while we close. With `is_adoption` it is let in however full the runtimes are, up to what they keep for emergencies;
        without, the session has begun nowhere yet and is let in as any new one.

        `lost`: runtime lives (id, incarnation) that it must not go to.
        """
        self.counts.attempted += 1
        gone = frozenset(runtime_id for runtime_id, incarnation in lost if self._is_present(runtime_id, incarnation))
        return await self._accounted(self._adopt, replace(request, avoid=request.avoid | gone), Door.RELAY)

    def hold(self, session_id: str, epoch: int) -> None:
        """The session's caller is connected here, and has used the place of this leg: the id is in use, whether a runtime serves
        it at the moment or not."""
        self._held.add(session_id)
        self._fleet.books.use_epoch(session_id, epoch)

    def let_go(self, session_id: str) -> None:
        self._held.discard(session_id)

    async def place_again(self, failed: Placement, door: Door) -> Placement:
        """After a runtime had admitted and could not be reached: releases there and tries the others. The same attempt."""
        self.release(failed)
        self.counts.placed -= 1
        return await self._place(replace(failed.request, avoid=failed.request.avoid | {failed.runtime_id}), door)

    def fail(self, placement: Placement, detail: str) -> PlacementRefused:
        """After the last try: the admitted place could not be used. The attempt ends refused; the caller raises the answer."""
        self.release(placement)
        self.counts.placed -= 1
        self.counts.refused[RefusalCode.NO_CAPACITY.value] += 1
        why = RuntimeRefusal(placement.runtime_id, RefusalReason.UNREACHABLE, detail)
        return PlacementRefused(RefusalCode.NO_CAPACITY, "no runtime that admitted could be reached", (why,), _RETRY_AFTER_S)

    def release(self, placement: Placement) -> None:
        """Gives an unused place back, in the background."""
        self._pending.remove(placement)
        self._escalation.give_back(placement)

    async def _place(self, request: PlacementRequest, door: Door) -> Placement:
        return await self._accounted(self._new, request, door)

    async def _accounted(
        self, work: Callable[[PlacementRequest, Door], Awaitable[Placement]], request: PlacementRequest, door: Door
    ) -> Placement:
        """One attempt, with its outcome in the counts."""
        began_ns = self._clock.now_ns()
        outcome = "abandoned"
        try:
            placement = await work(request, door)
            outcome = "placed"
        except PlacementRefused as refused:
            outcome = refused.code
            self.counts.refused[outcome] += 1
            raise
        else:
            self.counts.placed += 1
            return placement
        finally:
            if outcome == "abandoned":
                self.counts.abandoned += 1
            self._observer.finished(outcome, self._clock.now_ns() - began_ns)

    async def _new(self, request: PlacementRequest, door: Door) -> Placement:
        session_id = request.session_id
        self._check_session(session_id)
        self._placing.add(session_id)
        try:
            return await self._route(self._pending.with_epoch(request, self._clock.now_ns()), door)
        finally:
            self._placing.discard(session_id)

    async def _adopt(self, request: PlacementRequest, door: Door) -> Placement:
        found = await self._attempt(request, door)
        if isinstance(found, Placement):
            return found
        raise self._refused(found)

    def _is_present(self, runtime_id: str, incarnation: int) -> bool:
        """Whether it is this life that the fleet has under the id; another may be asked."""
        seat = self._fleet.seat(runtime_id)
        return seat is not None and seat.member.facts.incarnation == incarnation

    def _check_session(self, session_id: str) -> None:
        self._check_open()
        if session_id in self._placing or session_id in self._held or self._fleet.books.where(session_id):
            raise PlacementRefused(RefusalCode.SESSION_LIVE, "the session id is in use")

    def _check_open(self) -> None:
        if self._is_closing:
            raise PlacementRefused(RefusalCode.CLOSING, "the balancer is shutting down", retry_after_s=_RETRY_AFTER_S)

    async def _route(self, request: PlacementRequest, door: Door) -> Placement:
        """At once; where callers may wait, after those with the same needs who came first."""
        room = self.room
        waiter = room.enter(request) if room.would_wait(request) else None
        try:
            if waiter is not None:
                await self._turn(request, waiter, after_a_refusal=False)
            while True:
                found = await self._attempt(request, door)
                if isinstance(found, Placement):
                    return found
                if found.refusal is not RefusalCode.NO_CAPACITY or not room.rule.places:
                    raise self._refused(found)
                if waiter is None:
                    waiter = room.enter(request)
                    if waiter is None:
                        raise self._refused(found, room.place_for(request))
                if not await self._turn(request, waiter, after_a_refusal=found.was_asked):
                    raise self._refused(found, room.place_of(waiter))
        finally:
            if waiter is not None:
                room.leave(waiter)

    async def _turn(self, request: PlacementRequest, waiter: Waiter, *, after_a_refusal: bool) -> bool:
        def is_open() -> bool:
            return self.router.is_open(request, self._fleet.view, self._clock.now_ns())

        is_its_turn = await self.room.turn(waiter, is_open, after_a_refusal=after_a_refusal)
        self._check_open()
        return is_its_turn

    async def _attempt(self, request: PlacementRequest, door: Door) -> Placement | _Failure:
        """Decides and asks, twice at most."""
        findings = Findings()
        decision = self._decide(request)
        for remaining in reversed(range(_ROUNDS)):
            if not decision.candidates:
                break
            placement = await self._escalation.reserve(decision, door, findings)
            if placement is not None:
                self._remember(placement)
                self._record(decision, placement.runtime_id, placement.reason, tuple(findings.refusals), "placed")
                return placement
            # Their answers brought fresh loads; who did not answer is not asked again.
            again = self._decide(replace(request, avoid=request.avoid | findings.silent)) if remaining else decision
            if not again.candidates:
                break
            decision = again
        return self._failure(decision, findings)

    def _decide(self, request: PlacementRequest) -> Decision:
        began_ns = self._clock.now_ns()
        decision = self.router.decide(request, self._fleet.view, began_ns, self._rng)
        self._observer.decided(self._clock.now_ns() - began_ns)
        return decision

    def _remember(self, placement: Placement) -> None:
        now_ns = self._clock.now_ns()
        self._fleet.view.affinity.placed(placement.session_id, placement.runtime_id, now_ns)
        if placement.session_id in self._held:  # nobody asks for the same leg again
            self._fleet.books.use_epoch(placement.session_id, placement.epoch)
        else:
            self._pending.add(placement, now_ns)

    def _failure(self, decision: Decision, findings: Findings) -> _Failure:
        runtimes, retry_after_s = decision.refusals, _RETRY_AFTER_S
        if decision.candidates:
            # Those that were asked, by what they said last, and those that the filters kept from being asked.
            standing = self.router.refusals(decision.request, self._fleet.view, self._clock.now_ns())
            by_name = {each.runtime_id: each for each in (*standing, *findings.refusals)}
            runtimes = tuple(by_name[name] for name in sorted(by_name))
            retry_after_s = min(findings.retry_after_ms, default=1000 * _RETRY_AFTER_S) / 1000
        if not decision.considered:
            code, message = RefusalCode.NO_RUNTIME, "no runtime is enrolled"
        elif runtimes and all(each.reason is RefusalReason.UNSUITABLE for each in runtimes):
            retry_after_s = 0.0
            if decision.removed == (("agent", decision.considered),):
                code, message = RefusalCode.UNKNOWN_AGENT, "no runtime serves this agent"
            else:
                code, message = RefusalCode.UNSUITABLE, "no runtime has what was asked for"
        else:
            code, message = RefusalCode.NO_CAPACITY, "no runtime has a place now"
        return _Failure(decision, code, message, runtimes, retry_after_s, bool(decision.candidates))

    def _refused(self, failure: _Failure, queue: QueuePlace | None = None) -> PlacementRefused:
        """The end of an attempt: recorded once, however often it was tried. `queue`: where the caller stood, or would have."""
        self._record(failure.decision, "", failure.decision.reason, failure.runtimes, failure.refusal.value)
        return PlacementRefused(failure.refusal, failure.message, failure.runtimes, failure.retry_after_s, queue)

    def _record(
        self, decision: Decision, runtime_id: str, reason: str, refused: tuple[RuntimeRefusal, ...], outcome: str
    ) -> None:
        self.log.add(PlacementRecord(decision, runtime_id, reason, refused, self._clock.now_ns(), outcome))
