"""The ledger's events and the shared shard agree at every step."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from runtime.app.shared_legs import SharedLegs
from runtime.primitives.ids import Epoch, SessionId
from runtime.primitives.reasons import EndReason
from runtime.session.ledger import Ledger, Leg
from runtime.session.shared_layout import Layout
from runtime.session.shared_shard import Shard
from runtime.session.shared_totals import read_shard


@given(st.lists(st.tuples(st.sampled_from(["start", "move_in", "end", "move_out"]), st.sampled_from(EndReason)), max_size=40))
def test_any_history_of_the_ledger_is_mirrored(history: list[tuple[str, EndReason]]) -> None:
    layout = Layout(1, 64)
    data = memoryview(bytearray(layout.total_bytes))
    words = data.cast("Q")
    shard = Shard(words, data, layout, 0)
    numbers = itertools.count(1)
    ledger = Ledger(SharedLegs(shard), lambda: f"t{next(numbers)}", 10)
    live: list[Leg] = []
    for step, reason in history:
        if step in ("start", "move_in"):
            name = SessionId(f"s{next(numbers)}")
            reserved = ledger.reserve(name, Epoch(1), lease_ns=10, now_ns=0, is_adoption=step == "move_in")
            leg = ledger.attach(reserved.ticket, 0)
            ledger.start(leg, 0)
            live.append(leg)
        elif live:
            leg = live.pop(0)
            ledger.end(leg, reason) if step == "end" else ledger.move_out(leg)
        mirrored, own = read_shard(words, layout, 0), ledger.totals
        assert (mirrored.started, mirrored.moved_in, mirrored.moved_out) == (own.started, own.moved_in, own.moved_out)
        assert dict(mirrored.ended) == {str(key): count for key, count in own.ended.items()}
        assert sorted(shard.live()) == sorted((each.session_id, each.epoch) for each in ledger.live())
