"""Each runtime with the first filter that removes it, in words. Only on a refusal: it walks every runtime."""

from __future__ import annotations

import numpy as np

from balancer.routing.columns import NEVER_NS
from balancer.routing.decision import RuntimeRefusal
from balancer.routing.filters import FILTERS, Filter, FilterContext
from balancer.routing.fleet_view import RuntimeRow
from runtime.primitives.clock import NS_PER_S
from runtime.primitives.load_snapshot import RuntimeState
from runtime.primitives.reasons import RefusalReason

__all__ = ["refusals_of"]


def refusals_of(context: FilterContext) -> tuple[RuntimeRefusal, ...]:
    found: dict[int, Filter] = {}
    used = context.view.columns.used
    for step in FILTERS:
        stays = step.keep(context)
        if stays is not None:
            for slot in np.flatnonzero(used & ~stays):
                found.setdefault(int(slot), step)
    named = ((context.view.row(slot), step) for slot, step in sorted(found.items()))
    return tuple(RuntimeRefusal(row.facts.runtime_id, _reason(row, step), _detail(row, step, context)) for row, step in named)


def _reason(row: RuntimeRow, step: Filter) -> RefusalReason:
    if step.name == "ready" and row.facts.state is RuntimeState.DRAINING:
        return RefusalReason.DRAINING
    return step.reason


def _detail(row: RuntimeRow, step: Filter, context: FilterContext) -> str:
    shown = "unknown" if row.utilisation is None else f"{row.utilisation:.2f}"
    match step.name:
        case "agent":
            return "does not serve the agent"
        case "abilities":
            return "lacks an ability: " + ", ".join(sorted(context.request.abilities - row.facts.abilities))
        case "version":
            return "version is below the one asked for"
        case "elsewhere":
            return "the session already has its place at another runtime"
        case "enrolled":
            return row.facts.ineligible
        case "failed_before":
            return "admitted the call but could not be reached for it"
        case "ready":
            return f"state is {row.facts.state.value}"
        case "fresh_report":
            if row.arrived_ns is None or row.arrived_ns == NEVER_NS:
                return "no load report yet"
            return f"report is {(context.now_ns - row.arrived_ns) / NS_PER_S:.1f} s old"
        case "inflow":
            return "takes no more new sessions for a moment"
        case "overload":
            return f"overloaded: utilisation {shown}"
        case _:
            return (
                f"{row.active}+{row.reserved}+{row.in_flight} of {row.hard_limit} (effective {row.effective:.1f}), "
                f"utilisation {shown}"
            )
