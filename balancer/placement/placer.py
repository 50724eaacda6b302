"""Route, debit, reserve, escalate: the I/O around the pure router."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from balancer.fleet.fleet import Fleet
from balancer.placement.answer_times import AnswerTimes
from balancer.placement.errors import PlacementRefused, RefusalCode
from balancer.placement.placement import Placement
from balancer.placement.releases import Release, Releases
from balancer.placement.reservation import Admitted, AlreadyHere, Door, NotAdmitted, Reservations
from balancer.routing.decision import Candidate, Decision, RuntimeRefusal
from balancer.routing.decision_log import DecisionLog, PlacementRecord
from balancer.routing.request import PlacementRequest
from balancer.routing.router import Router
from balancer.routing.tries import Tries
from runtime.primitives.clock import NS_PER_MS, NS_PER_S, Clock
from runtime.primitives.reasons import RefusalReason
from runtime.primitives.rng import Rng

__all__ = ["PlacementCounts", "PlacementObserver", "Placer"]

_ATTACH_NS: Final = 10 * NS_PER_S
"""A used ticket holds its place as `attached` for this long before the first valid message."""
_RETRY_AFTER_S: Final = 1.0
_ROUNDS: Final = 2
"""Decisions a placement: the second sees what the answers to the first brought."""


class PlacementObserver(Protocol):
    def decided(self, elapsed_ns: int) -> None:
        """The pure decision alone."""
        ...

    def finished(self, outcome: str, elapsed_ns: int) -> None:
        """The whole placement, reservation included. `outcome`: `placed` or the refusal's code."""
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


@dataclass(frozen=True, slots=True)
class _Pending:
    runtime_id: str
    epoch: int
    until_ns: int


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
    ) -> None:
        self.counts = PlacementCounts()
        self.log = log
        self.router = router
        self.is_closing = False
        self._fleet = fleet
        self._reservations = reservations
        self._releases = releases
        self._observer = observer
        self._clock = clock
        self._rng = rng
        self._answer_times = AnswerTimes()
        self._placing: set[str] = set()
        self._pending: OrderedDict[str, _Pending] = OrderedDict()

    @property
    def being_placed(self) -> int:
        return len(self._placing)

    async def place(self, request: PlacementRequest, door: Door) -> Placement:
        """Holds a place for the session's next leg, or raises PlacementRefused. The epoch is set here.

        Cancellation leaves nothing held: what may have been reserved is released in the background.
        """
        self.counts.attempted += 1
        return await self._place(request, door)

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
        pending = self._pending.get(placement.session_id)
        if pending is not None and pending.runtime_id == placement.runtime_id:
            del self._pending[placement.session_id]
        self._releases.submit(Release(placement.seat, placement.number, placement.session_id, placement.epoch, placement.ticket))

    async def _place(self, request: PlacementRequest, door: Door) -> Placement:
        began_ns = self._clock.now_ns()
        session_id = request.session_id
        outcome = "abandoned"
        try:
            self._check_session(session_id)
            self._placing.add(session_id)
            try:
                placement = await self._route(self._with_epoch(request, began_ns), door)
            finally:
                self._placing.discard(session_id)
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

    def _check_session(self, session_id: str) -> None:
        if self.is_closing:
            raise PlacementRefused(RefusalCode.CLOSING, "the balancer is shutting down", retry_after_s=_RETRY_AFTER_S)
        if session_id in self._placing or self._fleet.books.where(session_id):
            raise PlacementRefused(RefusalCode.SESSION_LIVE, "the session id is in use")

    def _with_epoch(self, request: PlacementRequest, now_ns: int) -> PlacementRequest:
        """The session's next leg; the same leg again while its place is held and was not taken."""
        last = self._fleet.books.last_epoch(request.session_id)
        pending = self._pending.get(request.session_id)
        if pending is not None and pending.until_ns > now_ns and pending.epoch > last:
            return replace(request, epoch=pending.epoch, only_runtime=pending.runtime_id)
        return replace(request, epoch=last + 1, only_runtime="")

    async def _route(self, request: PlacementRequest, door: Door) -> Placement:
        decision = self._decide(request)
        if not decision.candidates:
            raise self._refuse(decision, decision.refusals, _RETRY_AFTER_S)
        refusals: list[RuntimeRefusal] = []
        retry_after_ms: list[int] = []
        for _ in range(_ROUNDS):
            placement = await self._try(decision, door, refusals, retry_after_ms)
            if placement is not None:
                self._remember(placement)
                self._record(decision, placement.runtime_id, placement.reason, tuple(refusals), "placed")
                return placement
            # Their answers brought fresh loads; who did not answer is not asked again.
            silent = {each.runtime_id for each in refusals if each.reason is RefusalReason.UNREACHABLE}
            again = self._decide(replace(request, avoid=request.avoid | silent))
            if not again.candidates:
                break
            decision = again
        retry_after_s = min(retry_after_ms) / 1000 if retry_after_ms else _RETRY_AFTER_S
        raise self._refuse(decision, tuple(refusals), retry_after_s)

    def _decide(self, request: PlacementRequest) -> Decision:
        began_ns = self._clock.now_ns()
        decision = self.router.decide(request, self._fleet.view, began_ns, self._rng)
        self._observer.decided(self._clock.now_ns() - began_ns)
        return decision

    async def _try(
        self, decision: Decision, door: Door, refusals: list[RuntimeRefusal], retry_after_ms: list[int]
    ) -> Placement | None:
        """Asks the candidates as `Tries` says. None: nobody gave a place."""
        tries = Tries(decision.candidates)
        held: dict[int, Placement] = {}
        step = tries.first()
        try:
            while step.ask is not None:
                candidate = step.ask
                if not self._fleet.view.has_room(candidate, self._clock.now_ns(), uses_capacity=self.router.policy.uses_capacity):
                    step = tries.refused()  # filled while another was asked
                    continue
                answer = await self._ask(candidate, decision, door, in_haste=bool(held))
                match answer:
                    case Placement():
                        held[candidate.slot] = answer
                        step = tries.admitted(candidate, *self._fleet.view.second_look(candidate))
                        if step.release is not None:
                            self.release(held.pop(step.release.slot))
                    case AlreadyHere():
                        raise PlacementRefused(RefusalCode.SESSION_LIVE, "the session id is in use")
                    case NotAdmitted():
                        self.counts.runtime_refusals[answer.reason.value] += 1
                        refusals.append(RuntimeRefusal(candidate.runtime_id, answer.reason, answer.detail))
                        if answer.retry_after_ms:
                            retry_after_ms.append(answer.retry_after_ms)
                        if answer.reason is RefusalReason.INFLOW:
                            until_ns = self._clock.now_ns() + max(answer.retry_after_ms, 1) * NS_PER_MS
                            self._fleet.view.close(candidate.slot, until_ns)
                        step = tries.refused()
            return None if step.take is None else held.pop(step.take.slot)
        finally:
            for placement in held.values():  # cancelled, or live elsewhere: a fallback must not stay held
                self.release(placement)

    async def _ask(
        self, candidate: Candidate, decision: Decision, door: Door, *, in_haste: bool
    ) -> Placement | NotAdmitted | AlreadyHere:
        """Debits the view, then asks. A place that may be held without our knowing is released in the background.

        `in_haste`: another place is held already; a better one is not worth a long wait.
        """
        request = decision.request
        began_ns = self._clock.now_ns()
        opened = self._fleet.open_placement(candidate.runtime_id, began_ns)
        if opened is None:
            return NotAdmitted(RefusalReason.UNREACHABLE, "left the fleet while the call was being placed")
        seat, number = opened
        answer: Admitted | NotAdmitted | AlreadyHere | None = None
        share = self._fleet.view.load.fair_share_per_s(seat.slot, began_ns)
        timeout_s = self._answer_times.patience_s() if in_haste else self._reservations.timeout_s
        try:
            answer = await self._reservations.reserve(seat, number, request, door, share, timeout_s)
        finally:
            if answer is None or (isinstance(answer, NotAdmitted) and not answer.is_settled):
                self._releases.submit(Release(seat, number, request.session_id, request.epoch))
        if not isinstance(answer, Admitted):
            return answer
        self._answer_times.add(self._clock.now_ns() - began_ns)
        facts = seat.member.facts
        return Placement(
            request=request,
            runtime_id=facts.runtime_id,
            incarnation=facts.incarnation,
            websocket_address=facts.websocket_address,
            grpc_address=facts.grpc_address,
            ticket=answer.ticket,
            ticket_ttl_ms=answer.ticket_ttl_ms,
            reason=decision.explain(candidate),
            cross_region=decision.cross_region,
            seat=seat,
            number=number,
        )

    def _remember(self, placement: Placement) -> None:
        now_ns = self._clock.now_ns()
        until_ns = now_ns + placement.ticket_ttl_ms * NS_PER_MS + _ATTACH_NS
        self._fleet.view.affinity.placed(placement.session_id, placement.runtime_id, now_ns)
        self._pending[placement.session_id] = _Pending(placement.runtime_id, placement.epoch, until_ns)
        self._pending.move_to_end(placement.session_id)
        while self._pending:  # bounded by rate x lifetime: the front is the oldest
            session_id, oldest = next(iter(self._pending.items()))
            if oldest.until_ns > now_ns and self._fleet.books.last_epoch(session_id) < oldest.epoch:
                break
            del self._pending[session_id]

    def _refuse(self, decision: Decision, runtimes: tuple[RuntimeRefusal, ...], retry_after_s: float) -> PlacementRefused:
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
        self._record(decision, "", decision.reason, runtimes, code.value)
        return PlacementRefused(code, message, runtimes, retry_after_s)

    def _record(
        self, decision: Decision, runtime_id: str, reason: str, refused: tuple[RuntimeRefusal, ...], outcome: str
    ) -> None:
        self.log.add(PlacementRecord(decision, runtime_id, reason, refused, self._clock.now_ns(), outcome))
