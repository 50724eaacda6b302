"""What the lab reads in the workers' lines, and what it takes for wrong."""

from __future__ import annotations

import json

from perf.faults.plan import Connection, Ending, Wire
from perf.faults.reasons import reasons_by_ending, wrongly_ended

_PLAN = [
    Connection(0, Wire.GRPC, Ending.HALF_OPEN, 0),
    Connection(1, Wire.WEBSOCKET, Ending.CLOSE, 0),
    Connection(2, Wire.WEBSOCKET, Ending.SILENT, 0),
]


def _line(number: int, reason: str) -> str:
    return json.dumps({"session_id": f"f-{number}", "reason": reason, "event": "session ended"})


def test_the_reason_follows_from_what_the_caller_did() -> None:
    lines = ['{"event": "worker ready"}', "no JSON", _line(0, "connection_lost"), _line(1, "closed_by_caller")]
    reasons = reasons_by_ending(lines, _PLAN)
    assert reasons == {"grpc.half_open": {"connection_lost": 1}, "websocket.close": {"closed_by_caller": 1}}
    assert wrongly_ended(reasons) == 0


def test_any_other_reason_is_wrong_and_so_is_a_session_of_one_that_never_asked() -> None:
    lines = [_line(0, "idle_timeout"), _line(1, "connection_lost"), _line(2, "connection_lost")]
    assert wrongly_ended(reasons_by_ending(lines, _PLAN)) == 3
