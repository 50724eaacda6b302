"""Asking the candidates of one decision, one after the other, as `Tries` says: the I/O of reserve, verify, escalate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from balancer.fleet.fleet import Fleet
from balancer.placement.answer_times import AnswerTimes
from balancer.placement.counts import PlacementCounts
from balancer.placement.errors import PlacementRefused, RefusalCode
from balancer.placement.placement import Placement
from balancer.placement.releases import Release, Releases
from balancer.placement.reservation import Admitted, AlreadyHere, Door, NotAdmitted, Reservations
from balancer.routing.decision import Candidate, Decision, RuntimeRefusal
from balancer.routing.tries import Tries
from runtime.primitives.clock import NS_PER_MS, Clock
from runtime.primitives.reasons import RefusalReason

__all__ = ["Escalation", "Findings"]

_LAST_HOPE: Final = 4
"""So many times the usual patience with the last runtime that may adopt a call."""


@dataclass(slots=True)
class Findings:
    """What was learned from runtimes that gave no place, over the rounds of one placement."""

    refusals: list[RuntimeRefusal] = field(default_factory=list)
    retry_after_ms: list[int] = field(default_factory=list)

    @property
    def silent(self) -> set[str]:
        """Who did not answer: not to be asked again."""
        return {each.runtime_id for each in self.refusals if each.reason is RefusalReason.UNREACHABLE}


class Escalation:
    def __init__(
        self, fleet: Fleet, reservations: Reservations, releases: Releases, counts: PlacementCounts, clock: Clock
    ) -> None:
        self._fleet = fleet
        self._reservations = reservations
        self._releases = releases
        self._counts = counts
        self._clock = clock
        self._answer_times = AnswerTimes()

    def _has_room(self, candidate: Candidate, decision: Decision) -> bool:
        """Whether the candidate, asked a while after the decision, still has a place; one that is asked again has its own, and
        for a session that lost its runtime only the candidate itself can say."""
        if decision.request.only_runtime or decision.request.is_adoption:
            return True
        return self._fleet.view.has_room(candidate, self._clock.now_ns(), uses_capacity=decision.uses_capacity)

    async def reserve(self, decision: Decision, door: Door, findings: Findings) -> Placement | None:
        """None: nobody gave a place, and `findings` has the reasons. Cancelled, it leaves nothing held."""
        tries = Tries(decision.candidates)
        held: dict[int, Placement] = {}
        step = tries.first()
        try:
            while step.ask is not None:
                candidate = step.ask
                if not self._has_room(candidate, decision):
                    step = tries.refused()  # filled while another was asked
                    continue
                answer = await self._ask(candidate, decision, door, self._patience_s(candidate, decision, bool(held)))
                match answer:
                    case Placement():
                        held[candidate.slot] = answer
                        step = tries.admitted(candidate, *self._fleet.view.second_look(candidate))
                        if step.release is not None:
                            self.give_back(held.pop(step.release.slot))
                    case AlreadyHere():
                        raise PlacementRefused(RefusalCode.SESSION_LIVE, "the session id is in use")
                    case NotAdmitted():
                        self._counts.runtime_refusals[answer.reason.value] += 1
                        findings.refusals.append(RuntimeRefusal(candidate.runtime_id, answer.reason, answer.detail))
                        if answer.retry_after_ms:
                            findings.retry_after_ms.append(answer.retry_after_ms)
                        if answer.reason is RefusalReason.INFLOW:
                            until_ns = self._clock.now_ns() + max(answer.retry_after_ms, 1) * NS_PER_MS
                            self._fleet.view.close(candidate.slot, until_ns)
                        step = tries.refused()
            return None if step.take is None else held.pop(step.take.slot)
        finally:
            for placement in held.values():  # cancelled, or live elsewhere: a fallback must not stay held
                self.give_back(placement)

    def _patience_s(self, candidate: Candidate, decision: Decision, is_another_held: bool) -> float:
        """Where a place is held already, a better one is not worth a long wait; where a live call has nobody else left to ask, a
        busy runtime is."""
        if is_another_held:
            return self._answer_times.patience_s()
        is_last = decision.request.is_adoption and candidate is decision.candidates[-1]
        return self._reservations.timeout_s * (_LAST_HOPE if is_last else 1)

    async def _ask(
        self, candidate: Candidate, decision: Decision, door: Door, timeout_s: float
    ) -> Placement | NotAdmitted | AlreadyHere:
        """Debits the view, then asks. A place that may be held without our knowing is released in the background."""
        request = decision.request
        began_ns = self._clock.now_ns()
        opened = self._fleet.open_placement(candidate.runtime_id, began_ns)
        if opened is None:
            return NotAdmitted(RefusalReason.UNREACHABLE, "left the fleet while the call was being placed")
        seat, number = opened
        answer: Admitted | NotAdmitted | AlreadyHere | None = None
        share = self._fleet.view.load.fair_share_per_s(seat.slot, began_ns)
        try:
            answer = await self._reservations.reserve(seat, number, request, door, share, timeout_s)
        finally:
            if answer is None or (isinstance(answer, NotAdmitted) and not answer.is_settled):
                self._releases.submit(Release(seat, number, request.session_id, request.epoch))
        if not isinstance(answer, Admitted):
            return answer
        took_ns = self._clock.now_ns() - began_ns
        self._answer_times.add(took_ns)
        self._fleet.responded(seat, took_ns)
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
            number=number,
            place=answer.place,
        )

    def give_back(self, placement: Placement) -> None:
        """Releases a place that is not used, in the background. A life that is over holds none."""
        seat = self._fleet.seat(placement.runtime_id)
        if seat is not None and seat.member.facts.incarnation == placement.incarnation:
            name = placement.place or placement.ticket
            self._releases.submit(Release(seat, placement.number, placement.session_id, placement.epoch, name))
