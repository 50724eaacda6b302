"""What the lab finds where callers, log lines and kills do not fit together."""

from __future__ import annotations

import json

import pytest

from perf.faults.account import Account, Said, draw_up, read_lines
from perf.faults.journal import Journal
from perf.faults.plan import Connection, Door, Ending, Outcome, Wire


def _line(name: str, reason: str) -> str:
    return json.dumps({"session_id": name, "reason": reason, "event": "session ended"})


def test_lines_are_those_of_the_plan() -> None:
    lost = json.dumps({"event": "legs lost", "legs": ["f-2/1", "w-1/1"]})
    lines = ['{"event": "worker ready"}', "no JSON", _line("f-1", "idle_timeout"), _line("w-7", "drained"), lost]
    assert read_lines(lines, "f") == Said([("f-1", "idle_timeout")], ["f-2"])


def _account(
    ending: Ending,
    outcome: Outcome,
    ended: list[str],
    *,
    lost: int = 0,
    must: bool = False,
    may: bool = False,
    door: Door = Door.DIRECT,
) -> Account:
    journal = Journal(lambda: 0.0)
    connection = Connection("f-1", Wire.WEBSOCKET, door, ending, 0)
    journal.close(journal.open(connection), outcome)
    if must:
        journal.must.add("f-1")
    if may:
        journal.may.add("f-1")
    return draw_up([connection], journal, Said([("f-1", reason) for reason in ended], ["f-1"] * lost))


def _faults(account: Account) -> set[str]:
    names = (
        "not_as_planned",
        "for_another_reason",
        "ended_twice",
        "without_end",
        "lost_without_kill",
        "killed_not_lost",
    )
    return {name for name in names if getattr(account, name)}


_DONE = Outcome.STARTED


@pytest.mark.parametrize(
    ("account", "faults"),
    [
        (_account(Ending.CLOSE, _DONE, ["closed_by_caller"]), set()),
        (_account(Ending.SILENT, Outcome.UNSPOKEN, []), set()),
        (_account(Ending.ABANDON, Outcome.RESERVED, []), set()),
        (_account(Ending.STAY, Outcome.CUT, [], lost=1, must=True), set()),
        (_account(Ending.CLOSE, Outcome.UNANSWERED, [], lost=1, may=True), set()),
        (_account(Ending.CLOSE, _DONE, [], may=True), set()),  # killed between counting the end and writing it down
        (_account(Ending.CLOSE, Outcome.REFUSED, []), {"not_as_planned"}),
        (_account(Ending.STAY, Outcome.CUT, ["connection_lost"]), {"not_as_planned"}),
        (_account(Ending.CLOSE, _DONE, ["idle_timeout"]), {"for_another_reason"}),
        (_account(Ending.SILENT, Outcome.UNSPOKEN, ["connection_lost"]), {"for_another_reason"}),
        (_account(Ending.CLOSE, _DONE, ["closed_by_caller"] * 2), {"ended_twice"}),
        (_account(Ending.CLOSE, _DONE, ["closed_by_caller"], lost=1, may=True), {"ended_twice"}),
        (_account(Ending.CLOSE, _DONE, ["closed_by_caller"], lost=1, must=True, door=Door.RELAYED), set()),
        (_account(Ending.CLOSE, _DONE, ["closed_by_caller"] * 2, must=True, lost=1, door=Door.RELAYED), {"ended_twice"}),
        (_account(Ending.CLOSE, _DONE, []), {"without_end"}),
        (_account(Ending.CLOSE, _DONE, [], lost=1), {"lost_without_kill"}),
        (_account(Ending.STAY, Outcome.CUT, [], must=True), {"killed_not_lost"}),
    ],
)
def test_table(account: Account, faults: set[str]) -> None:
    assert _faults(account) == faults
    assert bool(account.examples) == bool(faults)


def test_a_way_has_occurred_only_where_its_reason_was_given() -> None:
    assert "websocket.direct.idle" not in _account(Ending.IDLE, _DONE, ["idle_timeout"]).ways_missing
    assert "websocket.direct.idle" in _account(Ending.IDLE, _DONE, ["connection_lost"]).ways_missing
    assert "websocket.direct.idle" in _account(Ending.IDLE, Outcome.OVERDUE, []).ways_missing
