"""The compared ways all count: what a writer does is seen, and a snapshot is had."""

from __future__ import annotations

import pytest

from perf.bench.counting_ways import LAYOUT, in_one_process, in_processes
from perf.bench.tracker import cost_of_snapshots


@pytest.mark.parametrize("way", ["sharded", "lock", "value", "attribute"])
def test_each_way_counts_and_can_be_looked_at(way: str) -> None:
    work_of, look = in_one_process(way)
    work_of(0)(10)
    work_of(1)(10)
    assert look()


def test_what_processes_share_is_one_count() -> None:
    data = memoryview(bytearray(LAYOUT.total_bytes))
    words = data.cast("Q")
    work_of, look = in_processes("sharded", words, data, None, None)
    work_of(3)(5)
    assert look()
    assert words[LAYOUT.shard(3)] == 20  # two changes a session, two steps of the sequence a change


def test_a_snapshot_beside_writers_costs_something_and_is_always_had() -> None:
    cost_ns, missed = cost_of_snapshots("sharded", 2, 50)
    assert cost_ns > 0
    assert missed == 0
