"""The decision log is bounded and finds a session's latest record."""

from __future__ import annotations

from balancer.routing.decision import Decision
from balancer.routing.decision_log import DecisionLog, PlacementRecord
from balancer.routing.request import PlacementRequest


def record(session_id: str) -> PlacementRecord:
    decision = Decision(PlacementRequest(session_id), "p", "c", 0, 0, (), 0, [])
    return PlacementRecord(decision, "r", "why", (), 0, "placed")


def test_oldest_leave_first() -> None:
    log = DecisionLog(3)
    made = [record(name) for name in ("a", "b", "a", "c")]
    for each in made:
        log.add(each)
    assert len(log) == 3
    assert log.latest(2) == (made[3], made[2])
    assert log.of_session("a") is made[2]
    assert log.of_session("b") is made[1]
    log.add(record("d"))
    assert log.of_session("b") is None
