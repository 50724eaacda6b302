"""What a reader must never see."""

from __future__ import annotations

import pytest

from perf.faults.reader import impossible
from runtime.primitives.load_snapshot import LegTotals

_BEFORE = LegTotals(5, 1, 1, 1, {"drained": 2})


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (_BEFORE, ""),
        (LegTotals(6, 2, 2, 2, {"drained": 2, "idle_timeout": 1}), ""),
        (LegTotals(4, 1, 1, 1, {"drained": 2}), "started fell from 5 to 4"),
        (LegTotals(5, 1, 1, 0, {"drained": 2}), "lost fell"),
        (LegTotals(5, 1, 1, 1, {}), "ended drained fell from 2 to 0"),
        (LegTotals(5, 1, 1, 1, {"drained": 9}), "active is -5"),
    ],
)
def test_table(now: LegTotals, words: str) -> None:
    found = impossible(_BEFORE, now)
    assert (words in found) if words else found == ""
