"""The reader's end: only segments of our layout are read, torn shards are retried, sums add up."""

from __future__ import annotations

import pytest

from runtime.primitives.ids import Epoch, SessionId
from runtime.primitives.reasons import EndReason
from runtime.session.shared_layout import Cell, Header, Layout
from runtime.session.shared_shard import Shard
from runtime.session.shared_totals import TornShard, add_up, read_layout, read_shard, write_header

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


def test_a_shard_that_stays_torn_is_said_to_be() -> None:
    words, _ = _segment()
    words[_LAYOUT.shard(1) + Cell.SEQUENCE] = 3
    with pytest.raises(TornShard, match="shard 1"):
        read_shard(words, _LAYOUT, 1)
