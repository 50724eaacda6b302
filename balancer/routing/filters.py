"""The hard filters, each one step: which rows stay. The order is the order in which a refusal names its reason.

Legend of `FILTERS`: name as in the decision record, the reason a removed runtime is refused with, the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from balancer.capacity.overload import open_to
from balancer.routing.fleet_view import FleetView
from balancer.routing.overload import OVERLOAD_LEVELS
from balancer.routing.request import PlacementRequest
from runtime.primitives.reasons import RefusalReason

__all__ = ["FILTERS", "Filter", "FilterContext", "in_region"]

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FilterContext:
    """Everything a step may look at."""

    request: PlacementRequest
    view: FleetView
    now_ns: int
    max_age_ns: int
    uses_capacity: bool
    """Whether the headroom step applies; the hard limit always does."""


@dataclass(frozen=True, slots=True)
class Filter:
    name: str
    reason: RefusalReason
    keep: Callable[[FilterContext], Bools | None]
    """None: the request asks nothing of this step, all rows stay."""


def _enrolled(context: FilterContext) -> Bools:
    return context.view.columns.eligible


def _ready(context: FilterContext) -> Bools:
    return context.view.columns.ready


def _fresh(context: FilterContext) -> Bools:
    kept: Bools = context.view.columns.arrived_ns >= context.now_ns - context.max_age_ns
    return kept


def _agent(context: FilterContext) -> Bools | None:
    agent = context.request.agent
    return context.view.mask(("agent", agent), lambda facts: agent in facts.agents) if agent else None


def _abilities(context: FilterContext) -> Bools | None:
    wanted = context.request.abilities
    return context.view.mask(("abilities", wanted), lambda facts: wanted <= facts.abilities) if wanted else None


def _version(context: FilterContext) -> Bools | None:
    least = context.request.min_version
    return context.view.mask(("version", least), lambda facts: facts.version >= least) if least else None


def _context_window(context: FilterContext) -> Bools | None:
    wanted = context.request.context_window
    if not wanted:
        return None
    remaining = context.view.columns.context_window
    kept: Bools = (remaining == 0.0) | (remaining >= wanted)  # 0: the engine has no such limit
    return kept


def _only(context: FilterContext) -> Bools | None:
    only = context.request.only_runtime
    return context.view.mask(("only", only), lambda facts: facts.runtime_id == only) if only else None


def _not_avoided(context: FilterContext) -> Bools | None:
    avoid = context.request.avoid
    return context.view.mask(("avoid", avoid), lambda facts: facts.runtime_id not in avoid) if avoid else None


def _is_let_in(request: PlacementRequest) -> bool:
    """Its place is held already, or it is a live session that needs its next runtime."""
    return bool(request.only_runtime) or request.is_adoption


def _not_overloaded(context: FilterContext) -> Bools | None:
    if _is_let_in(context.request):
        return None
    c = context.view.columns
    return open_to(c.overload, c.utilisation, c.eligible & c.ready, OVERLOAD_LEVELS[context.request.priority])


def _not_closed(context: FilterContext) -> Bools | None:
    if _is_let_in(context.request):
        return None
    kept: Bools = context.view.columns.closed_until_ns <= context.now_ns
    return kept


def _hard_limit(context: FilterContext) -> Bools | None:
    if _is_let_in(context.request):
        return None
    return ~context.view.columns.is_full


def _headroom(context: FilterContext) -> Bools | None:
    """A whole session must fit below the effective capacity."""
    wanted = context.uses_capacity and not _is_let_in(context.request)
    return ~context.view.columns.is_capped if wanted else None


FILTERS: Final[tuple[Filter, ...]] = (
    Filter("agent", RefusalReason.UNSUITABLE, _agent),
    Filter("abilities", RefusalReason.UNSUITABLE, _abilities),
    Filter("version", RefusalReason.UNSUITABLE, _version),
    Filter("elsewhere", RefusalReason.UNSUITABLE, _only),
    Filter("enrolled", RefusalReason.UNREACHABLE, _enrolled),
    Filter("failed_before", RefusalReason.UNREACHABLE, _not_avoided),
    Filter("ready", RefusalReason.NOT_READY, _ready),
    Filter("fresh_report", RefusalReason.STALE_REPORT, _fresh),
    Filter("context_window", RefusalReason.NO_HEADROOM, _context_window),
    Filter("hard_limit", RefusalReason.LIMIT, _hard_limit),
    Filter("overload", RefusalReason.OVERLOAD, _not_overloaded),
    Filter("headroom", RefusalReason.NO_HEADROOM, _headroom),
    Filter("inflow", RefusalReason.INFLOW, _not_closed),
)


def in_region(context: FilterContext) -> Bools | None:
    """The soft step, after all others: the rows of the wanted region. The router ignores it when it would leave none."""
    region = context.request.region
    return context.view.mask(("region", region), lambda facts: facts.region == region) if region else None
