"""The one pure router that the live balancer, the simulator and replay all drive."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np

from balancer.routing.columns import NEVER_NS
from balancer.routing.decision import Candidate, Decision, RuntimeRefusal
from balancer.routing.filters import FilterContext
from balancer.routing.fleet_view import FleetView
from balancer.routing.overload import FleetOverload, OverloadRule
from balancer.routing.policy import Choice, Policy, Question
from balancer.routing.pool import Pool, build_pool, pool_key
from balancer.routing.refusals import refusals_of
from balancer.routing.request import PlacementRequest
from runtime.primitives.reasons import RefusalReason
from runtime.primitives.rng import Rng

__all__ = ["Router"]

_POOLS_KEPT: Final = 256
_REFRESH_NS: Final = 200_000_000
"""Time alone changes estimates slowly: a few times a second is enough."""


class Router:
    """Filters, then lets the policy order; a session that belongs to a runtime goes back there first. Knows no I/O; the caller
    debits the view before it acts on a decision."""

    def __init__(self, policy: Policy, max_report_age_ns: int, tries: int = 3, overload: OverloadRule | None = None) -> None:
        self.max_report_age_ns = max_report_age_ns
        self.tries = tries
        """Candidates in a decision: one to reserve at, the others to verify or to escalate to."""
        self._policy = policy
        self._overload = FleetOverload(overload or OverloadRule())
        self._pools: dict[Hashable, Pool] = {}

    @property
    def policy(self) -> Policy:
        return self._policy

    def use(self, policy: Policy) -> None:
        """Another policy from the next decision on; nothing that was placed is touched."""
        self._policy = policy
        self._pools.clear()

    def forget_pools(self) -> None:
        """What was worked out is worked out anew: for a state that must not depend on it."""
        self._pools.clear()

    def decide(self, request: PlacementRequest, view: FleetView, now_ns: int, rng: Rng) -> Decision:
        """Ordered candidates, or a refusal that names every runtime's reason."""
        view.load.refresh(now_ns, _REFRESH_NS)
        policy = self._policy
        pool = self._pool(request, view, now_ns)
        fleet_load = view.load.load_now
        is_overloaded = pool.size > 0 and self._is_overloaded(request, view)
        bound_to = view.affinity.runtime_of(request.session_id, now_ns)
        candidates: list[Candidate] = []
        refusals: tuple[RuntimeRefusal, ...] = ()
        if pool.size and not is_overloaded:
            question = Question(view, pool, request, self.tries, now_ns)
            choices = policy.order(question, rng)
            if bound_to:
                choices = _returning(choices, view.slot_of(bound_to), question)
            candidates = [_candidate(view, each, now_ns) for each in choices]
        elif is_overloaded:
            detail = f"the fleet is at {fleet_load:.0%} of its capacity"
            ids = (view.facts(int(slot)).runtime_id for slot in pool.kept)
            refusals = tuple(RuntimeRefusal(each, RefusalReason.OVERLOAD, detail) for each in ids)
        else:
            refusals = refusals_of(self._context(request, view, now_ns))
        return Decision(
            request,
            policy.name,
            policy.claim,
            now_ns,
            pool.considered,
            pool.removed,
            pool.size,
            candidates,
            refusals,
            pool.cross_region,
            fleet_load,
            is_overloaded,
            policy.uses_capacity,
            bound_to,
        )

    def is_open(self, request: PlacementRequest, view: FleetView, now_ns: int) -> bool:
        """Whether a decision would have a candidate; chooses none."""
        view.load.refresh(now_ns, _REFRESH_NS)
        return self._pool(request, view, now_ns).size > 0 and not self._is_overloaded(request, view)

    def refusals(self, request: PlacementRequest, view: FleetView, now_ns: int) -> tuple[RuntimeRefusal, ...]:
        """Whom the filters keep from this request, and why. O(n), slow."""
        return refusals_of(self._context(request, view, now_ns))

    def _is_overloaded(self, request: PlacementRequest, view: FleetView) -> bool:
        refuses = self._policy.uses_capacity and self._overload.refuses(request.priority, view.load.load_now)
        return refuses and not (request.is_resume or request.is_adoption or request.only_runtime)

    def standing(self, view: FleetView, now_ns: int) -> dict[str, RuntimeRefusal]:
        """Who would get nothing from a request without needs, and why; for people to look at. O(n), slow."""
        return {each.runtime_id: each for each in self.refusals(PlacementRequest(""), view, now_ns)}

    def _context(self, request: PlacementRequest, view: FleetView, now_ns: int) -> FilterContext:
        return FilterContext(request, view, now_ns, self.max_report_age_ns, self._policy.uses_capacity)

    def _pool(self, request: PlacementRequest, view: FleetView, now_ns: int) -> Pool:
        key = pool_key(request)
        pool = self._pools.get(key)
        if pool is not None and pool.version == view.version and now_ns <= pool.until_ns:
            return pool
        if len(self._pools) >= _POOLS_KEPT:  # callers choose keys: bounded, and rebuilding is cheap
            self._pools.clear()
        before = pool
        pool = self._pools[key] = build_pool(self._context(request, view, now_ns))
        if before is not None and np.array_equal(before.kept, pool.kept):
            pool.plan = before.plan
        return pool


def _returning(choices: list[Choice], slot: int | None, question: Question) -> list[Choice]:
    """The session's own runtime first, where the filters left it: health comes before affinity. It needs no second look."""
    if slot is None:
        return choices
    kept = question.pool.kept
    place = int(kept.searchsorted(slot))
    if place >= kept.shape[0] or kept[place] != slot:
        return choices
    columns = question.view.columns
    own = Choice(slot, columns.load.item(slot) / max(columns.capacity.item(slot), 1e-6))
    return [own, *(each for each in choices if each.slot != slot)][: max(question.count, 1)]


def _candidate(view: FleetView, choice: Choice, now_ns: int) -> Candidate:
    slot = choice.slot
    facts = view.facts(slot)
    arrived_ns = view.columns.arrived_ns.item(slot)
    age_ns = 0 if arrived_ns == NEVER_NS else max(0, now_ns - arrived_ns)
    columns = view.columns
    return Candidate(
        slot,
        facts.runtime_id,
        facts.incarnation,
        choice.score,
        choice.enough,
        columns.own_placed.item(slot),
        age_ns,
        columns.numbers(slot),
    )
