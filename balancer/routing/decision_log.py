"""The last placements with their reasons, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from balancer.routing.decision import Decision, RuntimeRefusal

__all__ = ["DecisionLog", "PlacementRecord"]


@dataclass(frozen=True, slots=True)
class PlacementRecord:
    """A decision and what came of it."""

    decision: Decision
    runtime_id: str
    """Who admitted; empty: nobody."""
    reason: str
    refused: tuple[RuntimeRefusal, ...]
    """Runtimes that were asked and did not admit, in order; on a refusal without a candidate, the filters' reasons."""
    finished_ns: int
    outcome: str
    """`placed`, or the refusal's code."""


class DecisionLog:
    """At most `limit` records; the oldest leaves. The latest record of a session can be found by its id."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"limit is {limit}; allowed: at least 1")
        self._limit = limit
        self._records: OrderedDict[int, PlacementRecord] = OrderedDict()
        self._by_session: dict[str, int] = {}
        self._next = 0

    def add(self, record: PlacementRecord) -> None:
        if len(self._records) >= self._limit:
            number, oldest = self._records.popitem(last=False)
            if self._by_session.get(oldest.decision.request.session_id) == number:
                del self._by_session[oldest.decision.request.session_id]
        self._records[self._next] = record
        self._by_session[record.decision.request.session_id] = self._next
        self._next += 1

    def __len__(self) -> int:
        return len(self._records)

    def latest(self, count: int) -> tuple[PlacementRecord, ...]:
        """Newest first."""
        newest: list[PlacementRecord] = []
        for number in reversed(self._records):
            if len(newest) >= count:
                break
            newest.append(self._records[number])
        return tuple(newest)

    def of_session(self, session_id: str) -> PlacementRecord | None:
        number = self._by_session.get(session_id)
        return None if number is None else self._records[number]
