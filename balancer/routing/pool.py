"""Who may serve a request, worked out once for all requests with the same needs until something about it changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from balancer.routing.filters import FILTERS, FilterContext, in_region
from balancer.routing.fleet_view import FleetView
from balancer.routing.request import PlacementRequest

__all__ = ["Pool", "build_pool", "pool_key"]

_FOR_EVER_NS: Final = 2**62


@dataclass(slots=True)
class Pool:
    """`kept`: slots, ascending. Valid while the view's version is the same and until `until_ns`, when a report gets too old."""

    kept: NDArray[np.intp]
    considered: int
    removed: tuple[tuple[str, int], ...]
    """Filter by filter in order, the runtimes that a filter removed first."""
    cross_region: bool
    version: tuple[int, int]
    until_ns: int
    plan: Any = None
    """What the policy worked out for this pool; its own affair."""
    members: frozenset[int] | None = None

    @property
    def size(self) -> int:
        return int(self.kept.shape[0])


def build_pool(context: FilterContext) -> Pool:
    """O(n) in vector operations."""
    view: FleetView = context.view
    used = view.columns.used
    kept = used
    left = considered = len(view)
    removed: list[tuple[str, int]] = []
    for step in FILTERS:
        stays = step.keep(context)
        if stays is None:
            continue
        kept = kept & stays
        now_left = int(np.count_nonzero(kept))
        if now_left != left:
            removed.append((step.name, left - now_left))
            left = now_left
            if not left:
                break
    cross_region = False
    near = in_region(context) if left else None
    if near is not None:
        kept_near = kept & near
        if kept_near.any():
            kept = kept_near
        else:
            cross_region = True
    # A report that gets too old takes its runtime out, and one that was too old may be followed by a fresh one (a flip).
    arrived_ns = view.columns.arrived_ns[kept]
    until_ns = int(arrived_ns.min()) + context.max_age_ns if arrived_ns.size else _FOR_EVER_NS
    # So does one that refused for inflow, until it may be asked again.
    closed_until_ns = view.columns.closed_until_ns[used]
    opens_ns = closed_until_ns[closed_until_ns > context.now_ns]
    if opens_ns.size:
        until_ns = min(until_ns, int(opens_ns.min()))
    return Pool(np.flatnonzero(kept), considered, tuple(removed), cross_region, view.version, until_ns)


def pool_key(request: PlacementRequest) -> tuple[object, ...]:
    """Requests with equal keys have the same pool."""
    return (
        request.agent,
        request.abilities,
        request.min_version,
        request.context_window,
        request.region,
        request.priority,
        request.only_runtime,
        request.avoid,
        request.is_adoption,
    )
