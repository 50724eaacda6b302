"""The one pure router that the live balancer, the simulator and replay all drive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from balancer.routing.decision import Candidate, Decision, RuntimeRefusal
from balancer.routing.filters import FILTERS, Filter, FilterContext, in_region
from balancer.routing.fleet_view import FleetView, RuntimeRow
from balancer.routing.policy import Policy
from balancer.routing.request import PlacementRequest
from runtime.primitives.clock import NS_PER_S
from runtime.primitives.load_snapshot import RuntimeState
from runtime.primitives.reasons import RefusalReason
from runtime.primitives.rng import Rng

__all__ = ["Router"]


@dataclass(frozen=True, slots=True)
class Router:
    """Filters, then orders. Knows no I/O; the caller debits the view before it acts on a decision."""

    policy: Policy
    max_report_age_ns: int
    tries: int = 3
    """Candidates in a decision: one to reserve at and two to escalate to."""

    def decide(self, request: PlacementRequest, view: FleetView, now_ns: int, rng: Rng) -> Decision:
        """Ordered candidates, or a refusal that names every runtime's reason. O(n) in vector operations."""
        context = FilterContext(request, view, now_ns, self.max_report_age_ns, self.policy.caps_by_effective_capacity)
        kept: NDArray[np.bool_] | None = None
        left = considered = len(view)
        removed: list[tuple[str, int]] = []
        for step in FILTERS:
            stays = step.keep(context)
            if stays is None:
                continue
            kept = stays if kept is None else kept & stays
            now_left = int(np.count_nonzero(kept))
            if now_left != left:
                removed.append((step.name, left - now_left))
                left = now_left
                if not left:
                    break
        if not left or kept is None:
            return self._decision(context, considered, removed, 0, (), refusals=_refusals(context))
        cross_region = False
        near = in_region(context)
        if near is not None:
            kept_near = kept & near
            if kept_near.any():
                kept = kept_near
                left = int(np.count_nonzero(kept))
            else:
                cross_region = True
        order = self.policy.order(view, np.flatnonzero(kept), self.tries, rng)
        candidates = tuple(_candidate(view.row(index), self.policy.score(view, index), now_ns) for index in order)
        return self._decision(context, considered, removed, left, candidates, cross_region=cross_region)

    def standing(self, view: FleetView, now_ns: int) -> dict[str, RuntimeRefusal]:
        """Who would get nothing from a request without needs, and why; for people to look at. O(n), slow."""
        context = FilterContext(
            PlacementRequest(""), view, now_ns, self.max_report_age_ns, self.policy.caps_by_effective_capacity
        )
        return {each.runtime_id: each for each in _refusals(context)}

    def _decision(
        self,
        context: FilterContext,
        considered: int,
        removed: list[tuple[str, int]],
        with_room: int,
        candidates: tuple[Candidate, ...],
        refusals: tuple[RuntimeRefusal, ...] = (),
        cross_region: bool = False,
    ) -> Decision:
        return Decision(
            request=context.request,
            policy=self.policy.name,
            claim=self.policy.claim,
            decided_ns=context.now_ns,
            considered=considered,
            removed=tuple(removed),
            with_room=with_room,
            candidates=candidates,
            refusals=refusals,
            cross_region=cross_region,
        )


def _candidate(row: RuntimeRow, score: float, now_ns: int) -> Candidate:
    return Candidate(row, 0 if row.arrived_ns is None else max(0, now_ns - row.arrived_ns), score)


def _refusals(context: FilterContext) -> tuple[RuntimeRefusal, ...]:
    """Each runtime with the first filter that removes it. Only on a refusal: it walks every row."""
    found: dict[int, Filter] = {}
    for step in FILTERS:
        stays = step.keep(context)
        if stays is not None:
            for index in np.flatnonzero(~stays):
                found.setdefault(int(index), step)
    named = ((context.view.row(index), step) for index, step in sorted(found.items()))
    return tuple(RuntimeRefusal(row.runtime_id, _reason(row, step), _detail(row, step, context)) for row, step in named)


def _reason(row: RuntimeRow, step: Filter) -> RefusalReason:
    if step.name == "ready" and row.state is RuntimeState.DRAINING:
        return RefusalReason.DRAINING
    return step.reason


def _detail(row: RuntimeRow, step: Filter, context: FilterContext) -> str:
    match step.name:
        case "agent":
            return "does not serve the agent"
        case "abilities":
            return "lacks an ability: " + ", ".join(sorted(context.request.abilities - row.abilities))
        case "version":
            return "version is below the one asked for"
        case "elsewhere":
            return "the session already has its place at another runtime"
        case "enrolled":
            return row.ineligible
        case "failed_before":
            return "admitted the call but could not be reached for it"
        case "ready":
            return f"state is {row.state.value}"
        case "fresh_report":
            if row.arrived_ns is None:
                return "no load report yet"
            return f"report is {(context.now_ns - row.arrived_ns) / NS_PER_S:.1f} s old"
        case "overload":
            shown = "unknown" if row.utilisation is None else f"{row.utilisation:.2f}"
            return f"overloaded: utilisation {shown}"
        case _:
            shown = "unknown" if row.utilisation is None else f"{row.utilisation:.2f}"
            return (
                f"{row.active}+{row.reserved}+{row.in_flight} of {row.hard_limit} (effective {row.effective:.1f}), "
                f"utilisation {shown}"
            )
