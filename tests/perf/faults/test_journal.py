"""What a kill must have cut, and what it may have cut."""

from __future__ import annotations

from perf.faults.journal import Journal
from perf.faults.plan import Connection, Door, Ending, Outcome, Wire


def _connection(name: str, ending: Ending = Ending.STAY) -> Connection:
    return Connection(name, Wire.WEBSOCKET, Door.DIRECT, ending, 0)


def test_a_kill_cuts_what_was_held_there_and_maybe_what_was_on_its_way() -> None:
    now_s = 10.0
    journal = Journal(lambda: now_s)
    held, coming, leaving, elsewhere, unplaced, gone = (journal.open(_connection(name)) for name in "abcdef")
    for visit in (held, coming, leaving, gone):
        visit.place("victim")
    elsewhere.place("other")
    held.hold()
    elsewhere.hold()
    leaving.hold()
    leaving.leave()
    assert unplaced.runtime_id == ""
    journal.close(gone, Outcome.STARTED)
    assert (journal.held(Ending.STAY), journal.held(Ending.STAY, "victim"), journal.held(Ending.DRAIN)) == (2, 1, 0)
    now_s = 10.5
    journal.killed("victim")
    assert (journal.must, journal.may) == ({"a"}, {"b", "c", "e"})
    assert journal.late == {"f"}  # over for half a second
    assert journal.touched == set("abcef")
    assert journal.outcomes == {"f": Outcome.STARTED}
