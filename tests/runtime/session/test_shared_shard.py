"""The writer's shard: names and totals agree, and a writer killed at any instruction leaves no doubt."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.primitives.ids import Epoch, SessionId
from runtime.primitives.reasons import EndReason
from runtime.session.shared_layout import Layout
from runtime.session.shared_shard import Shard, SlotsFull
from runtime.session.shared_totals import read_shard

_LAYOUT = Layout(shards=2, slots=4)


class _Killed(Exception):
    pass


class _Mortal:
    """Words that let the writer live for so many writes only."""

    def __init__(self, words: memoryview, writes: int) -> None:
        self._words = words
        self.writes = writes

    def __getitem__(self, key: Any) -> Any:
        return self._words[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.writes == 0:
            raise _Killed
        self.writes -= 1
        self._words[key] = value


def _segment() -> tuple[memoryview, memoryview]:
    data = memoryview(bytearray(_LAYOUT.total_bytes))
    return data.cast("Q"), data


def _shard(words: Any, data: memoryview, index: int = 1) -> Shard:
    return Shard(words, data, _LAYOUT, index)


def test_names_and_totals_agree() -> None:
    words, data = _segment()
    shard = _shard(words, data)
    shard.claim(7)
    first, second = shard.start(SessionId("a"), Epoch(1)), shard.start(SessionId("b"), Epoch(3), moved_in=True)
    assert sorted(shard.live()) == [("a", 1), ("b", 3)]
    shard.end(first, EndReason.CLOSED_BY_CALLER)
    shard.move_out(second)
    totals = read_shard(words, _LAYOUT, 1)
    assert (totals.started, totals.moved_in, totals.moved_out, dict(totals.ended)) == (1, 1, 1, {"closed_by_caller": 1})
    assert (totals.active, shard.live()) == (0, [])
    assert read_shard(words, _LAYOUT, 0).started == 0


def test_a_shard_has_one_writer() -> None:
    words, data = _segment()
    shard = _shard(words, data)
    shard.claim(7)
    with pytest.raises(ValueError, match="shard 1 is written by process 7"):
        _shard(words, data).claim(8)
    shard.release()
    _shard(words, data).claim(8)


def test_full_slots_are_refused_and_nothing_changes() -> None:
    words, data = _segment()
    shard = _shard(words, data)
    for number in range(4):
        shard.start(SessionId(str(number)), Epoch(1))
    with pytest.raises(SlotsFull):
        shard.start(SessionId("x"), Epoch(1))
    assert read_shard(words, _LAYOUT, 1).active == 4


def test_a_killed_writers_legs_are_lost_by_name_once() -> None:  # requirement S3, bug B18
    words, data = _segment()
    shard = _shard(words, data)
    shard.claim(7)
    for name in ("a", "b", "c"):
        shard.start(SessionId(name), Epoch(2))
    heir = _shard(words, data)
    assert sorted(heir.reclaim()) == [("a", 2), ("b", 2), ("c", 2)]
    assert heir.reclaim() == []
    assert read_shard(words, _LAYOUT, 1).lost == 3
    assert read_shard(words, _LAYOUT, 1).active == 0
    heir.claim(8)


def _writes_of(step: str) -> Iterator[int]:
    """Every number of writes at which a writer can die in this step."""
    words, data = _segment()
    counting = _Mortal(words, 10_000)
    shard = _shard(counting, data)
    slot = shard.start(SessionId("old"), Epoch(1))
    before = counting.writes
    _do(shard, step, slot)
    yield from range(before - counting.writes + 1)


def _do(shard: Shard, step: str, slot: int) -> None:
    if step == "start":
        shard.start(SessionId("new"), Epoch(1))
    elif step == "end":
        shard.end(slot, EndReason.IDLE_TIMEOUT)
    else:
        shard.move_out(slot)


@pytest.mark.parametrize(
    ("step", "writes"), [(step, writes) for step in ("start", "end", "move_out") for writes in _writes_of(step)]
)
def test_dying_at_any_write_leaves_a_whole_change_or_none(step: str, writes: int) -> None:
    words, data = _segment()
    mortal = _Mortal(words, 10_000)
    shard = _shard(mortal, data)
    slot = shard.start(SessionId("old"), Epoch(1))
    mortal.writes = writes
    with contextlib.suppress(_Killed):
        _do(shard, step, slot)
    lost = [name for name, _ in _shard(words, data).reclaim()]
    totals = read_shard(words, _LAYOUT, 1)
    assert totals.active == 0
    assert totals.lost == len(lost)
    assert totals.started == 1 + ("new" in lost)
    assert ("old" in lost) == (sum(totals.ended.values()) + totals.moved_out == 0)


@given(st.lists(st.tuples(st.sampled_from(["start", "end", "move_out"]), st.integers(0, 3)), max_size=60))
def test_any_history_balances(history: list[tuple[str, int]]) -> None:
    words, data = _segment()
    shard = _shard(words, data)
    slots: list[int] = []
    for step, choice in history:
        if step == "start":
            if len(slots) < 4:
                slots.append(shard.start(SessionId(f"s{len(slots)}"), Epoch(1)))
        elif slots:
            slot = slots.pop(choice % len(slots))
            shard.end(slot, EndReason.DRAINED) if step == "end" else shard.move_out(slot)
        totals = read_shard(words, _LAYOUT, 1)
        assert totals.active == len(slots) == len(shard.live())
