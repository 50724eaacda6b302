"""What a soak says, worked out from its sessions, its samples and the fleet's own books. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from perf.locust.record import Outcome, SessionRecord
from perf.percentile import percentile

__all__ = [
    "FleetSample",
    "Settled",
    "callers_told",
    "distribution",
    "residue",
    "sessions_at",
    "startup_percentile_ms",
    "unexplained",
]

_SAME: Final = 1e-9


@dataclass(frozen=True, slots=True)
class FleetSample:
    """Each runtime at one instant, in the balancer's eyes: sessions, and measured utilisation."""

    at_s: float
    active: Mapping[str, int]
    utilisation: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Settled:
    """After all callers have gone: the balancer's `/v1/fleet`, each runtime's `/v1/load`, the relay's gauges."""

    fleet: Mapping[str, Any]
    loads: Mapping[str, Mapping[str, Any]]
    relay: Mapping[str, float]


def startup_percentile_ms(sessions: Sequence[SessionRecord], ratio: float) -> float | None:
    """Of all who asked; a refusal or a broken start is worse than any start-up, so None where the percentile falls on one."""
    values = [math.inf if session.startup_ms is None else session.startup_ms for session in sessions]
    value = percentile(values, ratio)
    return None if value is None or math.isinf(value) else round(value, 1)


def distribution(samples: Sequence[FleetSample], runtimes: Sequence[str]) -> dict[str, Any]:
    """Sessions of each runtime: mean and most over the samples, and how far the fullest stood above the mean of all.

    `max_over_mean` is the mean over samples with at least one session a runtime; 1 is perfectly even.
    """
    busy = [sample for sample in samples if sum(sample.active.values()) >= len(runtimes)]
    ratios = [max(sample.active.values()) * len(runtimes) / sum(sample.active.values()) for sample in busy]
    return {
        "runtimes": {
            name: {
                "mean_sessions": round(_mean([sample.active.get(name, 0) for sample in samples]), 2),
                "most_sessions": max((sample.active.get(name, 0) for sample in samples), default=0),
                "mean_utilisation": round(_mean([sample.utilisation.get(name, 0.0) for sample in samples]), 3),
                "most_utilisation": round(max((sample.utilisation.get(name, 0.0) for sample in samples), default=0.0), 3),
            }
            for name in runtimes
        },
        "max_over_mean": round(_mean(ratios), 3) if ratios else None,
    }


def sessions_at(sessions: Sequence[SessionRecord], wire: str, outcome: Outcome) -> int:
    return sum(session.wire == wire and session.outcome is outcome for session in sessions)


def callers_told(sessions: Sequence[SessionRecord]) -> dict[str, Any]:
    """Sessions by wire and outcome, as the callers saw them."""
    wires = sorted({session.wire for session in sessions})
    return {wire: {outcome.value: sessions_at(sessions, wire, outcome) for outcome in Outcome} for wire in wires}


def residue(settled: Settled) -> dict[str, float]:
    """Every counter that has to be 0 when nobody calls any more; only those that are not."""
    totals, books = settled.fleet["totals"], settled.fleet["books"]
    counters: dict[str, float] = {
        "fleet.active": totals["active"],
        "fleet.reserved": totals["reserved"],
        "fleet.in_flight": totals["in_flight"],
        "books.active": books["active"],
        "books.being_placed": books["being_placed"],
        "books.unbalanced": 0 if books["balanced"] else 1,
        "books.event_gaps": books["event_gaps"],
        **{f"relay.{name}": value for name, value in settled.relay.items()},
    }
    for runtime in settled.fleet["runtimes"]:
        counters[f"{runtime['runtime_id']}.books.disagreement"] = runtime["books"]["disagreement"]
    for name, load in settled.loads.items():
        legs = load["totals"]
        arrived = legs["started"] + legs["moved_in"]
        counters[f"{name}.active"] = load["active"]
        counters[f"{name}.reserved"] = load["reserved"]
        counters[f"{name}.speaking"] = load["speaking"]
        counters[f"{name}.queue_length"] = load["queue_length"]
        counters[f"{name}.ledger"] = arrived - sum(legs["ended"].values()) - legs["moved_out"] - legs["lost"]
    return {name: value for name, value in counters.items() if abs(value) > _SAME}


def unexplained(sessions: Sequence[SessionRecord], settled: Settled) -> dict[str, int]:
    """Where callers, balancer and runtimes disagree on how many sessions there were or why they ended; empty: nowhere.

    A caller's goodbye must be a `closed_by_caller` and a cut line a `connection_lost`. What was dropped may have any reason.
    """
    books = settled.fleet["books"]
    began = [session for session in sessions if session.started_ns]
    ended = Counter(books["ended"])
    at_runtimes: Counter[str] = Counter()
    for load in settled.loads.values():
        at_runtimes.update(load["totals"]["ended"])
    goodbyes = sum(session.outcome is Outcome.GOODBYE for session in began)
    cut = sum(session.outcome is Outcome.DISCONNECTED for session in began)
    dropped = len(began) - goodbyes - cut
    others = sum(count for reason, count in ended.items() if reason not in ("closed_by_caller", "connection_lost"))
    differences = {
        "started_by_callers_and_books": len(began) - books["started"] - books["recovered"],
        "started_and_ended": sum(books[name] for name in ("started", "recovered", "moved_in"))
        - sum(ended.values())
        - books["moved_out"]
        - books["runtime_lost"],
        "books_and_runtimes": sum(abs(ended[reason] - at_runtimes[reason]) for reason in {*ended, *at_runtimes}),
        "goodbyes": max(0, abs(goodbyes - ended["closed_by_caller"]) - dropped),
        "cut_lines": max(0, abs(cut - ended["connection_lost"]) - dropped),
        "other_reasons": max(0, others + books["runtime_lost"] - dropped),
    }
    return {name: difference for name, difference in differences.items() if difference}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
