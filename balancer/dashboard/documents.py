"""What operators read, as JSON-ready values built from the live state. Shapes are in docs/protocol.md."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from balancer.fleet.fleet import Fleet
from balancer.fleet.seat import Seat
from balancer.placement.placer import Placer
from balancer.placement.waiting import estimated_wait_s
from balancer.routing.decision import Candidate, RuntimeRefusal
from balancer.routing.decision_log import PlacementRecord
from runtime.primitives.clock import NS_PER_S

__all__ = ["Documents"]

Json = dict[str, Any]  # Any: JSON
_MOST_NAMED: Final = 1000
_LINES: Final = 100


@dataclass(frozen=True, slots=True)
class Documents:
    fleet: Fleet
    placer: Placer
    began_ns: int
    moves: Callable[[], Mapping[tuple[str, str], float]]
    """How many moves of calls ended, by kind and result, in this process and in its relays."""
    relays: Callable[[], Sequence[Mapping[str, Any]]] = tuple  # Any: JSON
    """One object for each relay that is attached."""

    def whole_fleet(self, now_ns: int) -> Json:
        refusals = self.placer.router.standing(self.fleet.view, now_ns)
        seats = sorted(self.fleet.seats(), key=lambda seat: seat.member.facts.runtime_id)
        runtimes = [self._runtime(seat, refusals.get(seat.member.facts.runtime_id), now_ns) for seat in seats]
        reports = self.fleet.reports
        return {
            "balancer": {
                "balancer_id": self.fleet.life.balancer_id,
                "incarnation": self.fleet.life.incarnation,
                "policy": self.placer.router.policy.name,
                "uptime_s": round((now_ns - self.began_ns) / NS_PER_S, 3),
                "is_closing": self.placer.is_closing,
            },
            "runtimes": runtimes,
            "totals": {
                "runtimes": len(runtimes),
                "eligible": sum(each["eligible"] for each in runtimes),
                "active": sum(each["active"] for each in runtimes),
                "reserved": sum(each["reserved"] for each in runtimes),
                "in_flight": sum(each["in_flight"] for each in runtimes),
                "effective_capacity": round(sum(each["effective_capacity"] for each in runtimes), 3),
                "hard_limit": sum(each["hard_limit"] for each in runtimes),
                "oldest_report_age_s": max((each["report_age_s"] or 0.0 for each in runtimes), default=None),
            },
            "books": self.books(),
            "moves": [
                {"kind": kind, "result": result, "count": int(count)} for (kind, result), count in sorted(self.moves().items())
            ],
            "relays": list(self.relays()),
            "reports": {
                "taken": reports.taken,
                "duplicate": reports.duplicate,
                "reordered": reports.reordered,
                "unknown_runtime": reports.unknown_runtime,
                "dropped_fields": dict(reports.dropped_fields),
            },
        }

    def books(self) -> Json:
        totals, counts = self.fleet.books.totals, self.placer.counts
        return {
            "balanced": self.fleet.books.is_balanced,
            "active": self.fleet.books.active,
            "started": totals.started,
            "recovered": totals.recovered,
            "moved_in": totals.moved_in,
            "moved_out": totals.moved_out,
            "ended": dict(totals.ended),
            "runtime_lost": totals.runtime_lost,
            "unheard": totals.unheard,
            "duplicate_events": totals.duplicates,
            "event_gaps": totals.gaps,
            "attempted": counts.attempted,
            "placed": counts.placed,
            "refused": dict(counts.refused),
            "abandoned": counts.abandoned,
            "being_placed": self.placer.being_placed,
            "runtime_refusals": dict(counts.runtime_refusals),
        }

    def decisions(self, count: int, now_ns: int) -> Json:
        return {"decisions": [_record(each, now_ns) for each in self.placer.log.latest(count)]}

    def decision_lines(self, now_ns: int) -> Iterator[str]:
        """The whole log as JSON lines, oldest first, a hundred at a time."""
        records = tuple(reversed(self.placer.log.latest(len(self.placer.log))))
        for start in range(0, len(records), _LINES):
            some = records[start : start + _LINES]
            yield "".join(json.dumps(_record(each, now_ns), separators=(",", ":")) + "\n" for each in some)

    def queue(self, now_ns: int) -> Json:
        """Who waits for a place, next first (at most 1000 are named)."""
        room, view = self.placer.room, self.fleet.view
        return {
            "places": room.rule.places,
            "timeout_s": room.rule.timeout_s,
            "waiting": len(room.queue),
            "ends_per_s": round(view.ends_per_s, 4),
            "callers": [
                {
                    "session_id": each.session_id,
                    "priority": each.priority.value,
                    "place": place,
                    "waited_s": round((now_ns - each.since_ns) / NS_PER_S, 3),
                    "estimated_wait_s": estimated_wait_s(place, view.ends_per_s),
                }
                for place, each in enumerate(room.queue.waiters()[:_MOST_NAMED], 1)
            ],
        }

    def call(self, session_id: str, now_ns: int) -> Json | None:
        """None: neither live nor in the decision log."""
        legs = self.fleet.books.where(session_id)
        record = self.placer.log.of_session(session_id)
        if not legs and record is None:
            return None
        return {
            "session_id": session_id,
            "is_live": bool(legs),
            "legs": [
                {
                    "epoch": leg.epoch,
                    "runtime_id": leg.runtime_id,
                    "incarnation": leg.incarnation,
                    "age_s": round((now_ns - leg.since_ns) / NS_PER_S, 3),
                }
                for leg in legs
            ],
            "decision": None if record is None else _record(record, now_ns),
        }

    def is_ready(self, now_ns: int) -> bool:
        """Whether a call without needs would be placed now."""
        return not self.placer.is_closing and len(self.placer.router.standing(self.fleet.view, now_ns)) < len(self.fleet.view)

    def _runtime(self, seat: Seat, refusal: RuntimeRefusal | None, now_ns: int) -> Json:
        member, facts = seat.member, seat.member.facts
        row = self.fleet.view.get(facts.runtime_id)
        book = self.fleet.books.book(facts.runtime_id, facts.incarnation)
        snapshot = None if seat.report is None else seat.report.snapshot
        assert row is not None
        return {
            "runtime_id": facts.runtime_id,
            "incarnation": facts.incarnation,
            "machine_id": facts.machine_id,
            "websocket_address": facts.websocket_address,
            "grpc_address": facts.grpc_address,
            "region": facts.region,
            "version": facts.version,
            "sdk_version": facts.sdk_version,
            "cost_class": facts.cost_class.value,
            "agents": sorted(facts.agents),
            "abilities": sorted(facts.abilities),
            "state": row.facts.state.value,
            "eligible": refusal is None,
            "reason": None if refusal is None else refusal.reason.value,
            "detail": None if refusal is None else refusal.detail,
            "is_enrolled": member.lost_stream_awake_ns is None,
            "silence_s": round(self.fleet.membership.silence_s(member, now_ns), 3),
            "active": row.active,
            "speaking": 0 if snapshot is None else snapshot.speaking,
            "reserved": row.reserved,
            "in_flight": row.in_flight,
            "estimate": round(row.estimate, 3),
            "load": round(row.load, 3),
            "capacity": round(row.capacity, 3),
            "effective_capacity": round(row.effective, 3),
            "hard_limit": row.hard_limit,
            "utilisation": row.utilisation,
            "overload_level": row.overload,
            "speed": round(row.speed, 3),
            "mix": round(row.mix, 3),
            "report_age_s": None if row.arrived_ns is None else round((now_ns - row.arrived_ns) / NS_PER_S, 3),
            "report_sequence": None if snapshot is None else snapshot.sequence,
            "memory_bytes": None if snapshot is None else snapshot.memory_bytes,
            "loop_lag_p99_ms": None if snapshot is None else snapshot.loop_lag_p99_ms,
            "missed_audio_deadlines": None if snapshot is None else snapshot.missed_audio_deadlines,
            "startup_p99_ms": None if snapshot is None else snapshot.startup_p99_ms,
            "queue_length": None if snapshot is None else snapshot.queue_length,
            "dropped_fields": [] if seat.report is None else list(seat.report.dropped),
            "books": {
                "active": 0 if book is None else len(book.live),
                "ledger_version": None if book is None else book.ledger_version,
                "disagreement": 0 if book is None else book.disagreement,
            },
        }


def _record(record: PlacementRecord, now_ns: int) -> Json:
    decision = record.decision
    request = decision.request
    return {
        "session_id": request.session_id,
        "epoch": request.epoch,
        "age_s": round((now_ns - record.finished_ns) / NS_PER_S, 3),
        "took_ms": round((record.finished_ns - decision.decided_ns) / 1e6, 3),
        "outcome": record.outcome,
        "runtime_id": record.runtime_id or None,
        "reason": record.reason,
        "policy": decision.policy,
        "request": {
            "agent": request.agent,
            "abilities": sorted(request.abilities),
            "region": request.region,
            "min_version": ".".join(map(str, request.min_version)),
            "context_window": request.context_window,
            "priority": request.priority.value,
            "tenant": request.tenant,
        },
        "considered": decision.considered,
        "removed_by_filter": dict(decision.removed),
        "with_room": decision.with_room,
        "cross_region": decision.cross_region,
        "candidates": [_candidate(each) for each in decision.candidates],
        "refused": [
            {"runtime_id": each.runtime_id, "reason": each.reason.value, "detail": each.detail} for each in record.refused
        ],
    }


def _candidate(candidate: Candidate) -> Json:
    active, reserved, in_flight, hard_limit, effective, utilisation = candidate.numbers
    return {
        "runtime_id": candidate.runtime_id,
        "incarnation": candidate.incarnation,
        "active": int(active),
        "reserved": int(reserved),
        "in_flight": int(in_flight),
        "hard_limit": int(hard_limit),
        "effective_capacity": round(effective, 3),
        "utilisation": None if math.isnan(utilisation) else utilisation,
        "report_age_s": round(candidate.report_age_ns / NS_PER_S, 3),
        "score": round(candidate.score, 6),
    }
