"""The reader's end: only segments of our layout are read, torn shards are retried, sums add up."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.primitives.ids import Epoch, SessionId
from runtime.primitives.reasons import EndReason
from runtime.session.shared_layout import END_REASONS, Cell, Header, Layout
from runtime.session.shared_shard import Shard
from runtime.session.shared_totals import TornShard, add_up, impossible_cells, read_cells, read_layout, read_shard, write_header

_LAYOUT = Layout(shards=3, slots=2)


def _segment(extra_bytes: int = 0) -> tuple[memoryview, memoryview]:
    data = memoryview(bytearray(_LAYOUT.total_bytes + extra_bytes))
    return data.cast("Q"), data


def test_a_header_names_its_layout() -> None:
    words, _ = _segment(extra_bytes=4096)
    assert read_layout(words) is None
    write_header(words, _LAYOUT, 7, 9)
    assert read_layout(words) == _LAYOUT


@pytest.mark.parametrize(("word", "value"), [(Header.MAGIC, 1), (Header.VERSION, 2), (Header.SHARDS, 0), (Header.SLOTS, 100_000)])
def test_what_is_not_ours_is_not_read(word: int, value: int) -> None:
    words, _ = _segment()
    write_header(words, _LAYOUT, 7, 9)
    words[word] = value
    assert read_layout(words) is None


def test_shards_add_up() -> None:
    words, data = _segment()
    for index in range(3):
        shard = Shard(words, data, _LAYOUT, index)
        for reason in (EndReason.DRAINED, EndReason.IDLE_TIMEOUT):
            shard.end(shard.start(SessionId("a"), Epoch(1)), reason)
        shard.start(SessionId("b"), Epoch(1))
    totals = add_up(words, _LAYOUT)
    assert (totals.started, totals.active, dict(totals.ended)) == (9, 3, {"drained": 3, "idle_timeout": 3})


def test_a_reader_lets_a_writer_run_that_was_stopped_in_the_middle_of_a_change() -> None:
    words, _ = _segment()
    sequence = _LAYOUT.shard(1) + Cell.SEQUENCE
    words[sequence] = 3

    def pause() -> None:
        words[sequence] = 4

    assert read_cells(words, _LAYOUT, 1, pause)[Cell.SEQUENCE] == 4


def test_a_shard_that_stays_torn_is_said_to_be() -> None:
    words, _ = _segment()
    words[_LAYOUT.shard(1) + Cell.SEQUENCE] = 3
    with pytest.raises(TornShard, match="shard 1"):
        read_shard(words, _LAYOUT, 1)


class _Recorded:
    """Words that remember each write, so that a reader can be shown the memory between any two of them."""

    def __init__(self, words: memoryview) -> None:
        self._words = words
        self.writes: list[tuple[int, int]] = []

    def __getitem__(self, key: Any) -> Any:
        return self._words[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._words[key] = value
        self.writes.append((key, value))


class _Moving:
    """A counter block under a reader's eyes: before each word that is read, the writer makes some more of its writes."""

    def __init__(self, base: int, writes: list[tuple[int, int]], steps: Iterator[int]) -> None:
        self._cells = [0] * Cell.WORDS
        self._base = base
        self._writes = iter(writes)
        self._steps = steps

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):  # the block, cut out of the segment
            return self
        for _ in range(next(self._steps, len(END_REASONS))):
            word, value = next(self._writes, (self._base + Cell.WRITER_PID, 0))
            if 0 <= word - self._base < Cell.WORDS:
                self._cells[word - self._base] = value
        return self._cells[key]

    def tolist(self) -> list[int]:
        return [self[index] for index in range(Cell.WORDS)]


def _history() -> tuple[list[tuple[int, int]], list[tuple[int, ...]]]:
    """Some writes of a shard, and what can be seen between two changes."""
    words, data = _segment()
    recorded: Any = _Recorded(words)
    shard = Shard(recorded, data, _LAYOUT, 1)
    states = [tuple(read_cells(words, _LAYOUT, 1))]
    slots: list[int] = []
    for number in range(12):
        if number % 3 < 2 and len(slots) < _LAYOUT.slots:
            slots.append(shard.start(SessionId(str(number)), Epoch(1)))
        else:
            shard.end(slots.pop(), END_REASONS[number % len(END_REASONS)])
        states.append(tuple(read_cells(words, _LAYOUT, 1)))
    return recorded.writes, states


_WRITES, _STATES = _history()


@given(st.lists(st.integers(0, 6), max_size=3 * Cell.WORDS))
def test_a_reader_sees_a_state_between_two_changes_however_the_writer_moves(steps: list[int]) -> None:
    moving: Any = _Moving(_LAYOUT.shard(1), _WRITES, iter(steps))
    assert tuple(read_cells(moving, _LAYOUT, 1)) in _STATES


@pytest.mark.parametrize("moves_at", range(Cell.WORDS + 2))
@pytest.mark.parametrize("by", range(1, 26))
def test_a_change_in_the_middle_of_a_read_is_not_seen_in_part(moves_at: int, by: int) -> None:
    """Each place in the read, each number of writes made there: every torn block there is."""
    moving: Any = _Moving(_LAYOUT.shard(1), _WRITES, iter([0] * moves_at + [by] + [0] * 3 * Cell.WORDS))
    try:
        seen = tuple(read_cells(moving, _LAYOUT, 1))
    except TornShard:
        return  # it stopped in the middle of a change and stayed there
    assert seen in _STATES


_STOP = _LAYOUT.total_bytes // 8
"""The word after the segment: the reader has seen enough."""


def _write_at_full_speed(name: str) -> None:
    memory = SharedMemory(name)
    assert memory.buf is not None, "an open segment has a buffer"
    words = memory.buf[: 8 * (_STOP + 1)].cast("Q")
    data = memory.buf[: _LAYOUT.total_bytes]
    shard = Shard(words, data, _LAYOUT, 1)
    number = 0
    while not words[_STOP]:
        slot = shard.start(SessionId("a"), Epoch(1))
        shard.end(slot, END_REASONS[number % len(END_REASONS)])
        number += 1
    del shard
    words.release()
    data.release()
    memory.close()


def test_a_writer_in_another_process_at_full_speed_is_never_seen_torn() -> None:
    memory = SharedMemory(create=True, size=8 * (_STOP + 1))
    assert memory.buf is not None, "a new segment has a buffer"
    data = memory.buf[: 8 * (_STOP + 1)]
    words = data.cast("Q")
    writer = multiprocessing.get_context("spawn").Process(target=_write_at_full_speed, args=(memory.name,))
    try:
        writer.start()
        found: set[str] = set()
        states: set[int] = set()
        while len(states) < 2_000:
            try:
                cells = read_cells(words, _LAYOUT, 1, os.sched_yield)
            except TornShard:
                continue  # the system took the processor from the writer in the middle of a change
            found.add(impossible_cells(cells, _LAYOUT))
            states.add(cells[Cell.SEQUENCE])
        assert found == {""}
        words[_STOP] = 1
        writer.join()
        assert read_shard(words, _LAYOUT, 1).active == 0
    finally:
        writer.kill()
        words.release()
        data.release()
        memory.close()
        memory.unlink()


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({Cell.SEQUENCE: 4, Cell.STARTED: 1, Cell.ENDED: 1}, ""),
        ({Cell.SEQUENCE: 6, Cell.STARTED: 1, Cell.ENDED: 1}, ""),  # its writer died before the record of a change was whole
        ({Cell.SEQUENCE: 3, Cell.STARTED: 1}, "odd"),
        ({Cell.SEQUENCE: 2, Cell.STARTED: 1, Cell.JOURNAL: 7}, "under way"),
        ({Cell.SEQUENCE: 2, Cell.STARTED: 1, Cell.LOST: 1}, "2 changes; the sequence says 1"),
        ({Cell.SEQUENCE: 2, Cell.ENDED + 1: 1}, "active is -1"),
        ({Cell.SEQUENCE: 6, Cell.STARTED: 3}, "active is 3; there are 2 slots"),
    ],
)
def test_what_no_instant_can_show(cells: dict[int, int], words: str) -> None:
    block = [cells.get(index, 0) for index in range(Cell.WORDS)]
    assert (words in impossible_cells(block, _LAYOUT)) if words else not impossible_cells(block, _LAYOUT)
