"""What a reader must never see, one block after another."""

from __future__ import annotations

import pytest

from perf.faults.reader import impossible
from runtime.session.shared_layout import Cell, Layout

_LAYOUT = Layout(1, 8)
_BEFORE = {Cell.SEQUENCE: 12, Cell.STARTED: 4, Cell.ENDED: 1, Cell.LOST: 1}


def _block(cells: dict[int, int]) -> list[int]:
    return [cells.get(index, 0) for index in range(Cell.WORDS)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        ({Cell.SEQUENCE: 16, Cell.STARTED: 5, Cell.ENDED + 1: 1}, ""),
        ({Cell.SEQUENCE: 14}, ""),  # a writer died before its record was whole
        ({Cell.SEQUENCE: 14, Cell.STARTED: 3}, "started fell from 4 to 3"),
        ({Cell.SEQUENCE: 14, Cell.LOST: 0}, "lost fell"),
        ({Cell.SEQUENCE: 14, Cell.ENDED: 0}, "ended closed_by_caller fell from 1 to 0"),
        ({Cell.SEQUENCE: 10, Cell.STARTED: 3}, "sequence fell"),
        ({Cell.SEQUENCE: 13, Cell.STARTED: 5}, "odd"),
        ({Cell.SEQUENCE: 14, Cell.STARTED: 5, Cell.JOURNAL: 3}, "under way"),
        ({Cell.STARTED: 5}, "changes"),
    ],
)
def test_table(change: dict[int, int], words: str) -> None:
    found = impossible(_block(_BEFORE), _block({**_BEFORE, **change}), _LAYOUT)
    assert (words in found) if words else found == ""


def test_what_changed_without_the_sequence_is_seen_even_where_the_sums_would_allow_it() -> None:
    before = {**_BEFORE, Cell.SEQUENCE: 40}
    found = impossible(_block(before), _block({**before, Cell.STARTED: 5}), _LAYOUT)
    assert found == "1 changes while the sequence went from 40 to 40"
