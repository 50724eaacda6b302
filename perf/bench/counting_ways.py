"""The ways of counting that `perf.bench.tracker` compares: each as work for a writer and as a snapshot for a reader."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from runtime.primitives.ids import Epoch, SessionId
from runtime.primitives.reasons import EndReason
from runtime.session.shared_layout import Layout
from runtime.session.shared_shard import Shard
from runtime.session.shared_totals import TornShard, add_up

__all__ = ["LAYOUT", "Look", "Work", "in_one_process", "in_processes"]

LAYOUT: Final = Layout(shards=8, slots=64)
_NAME: Final = SessionId("session-0123456789abcdef")
_EPOCH: Final = Epoch(1)

Work: TypeAlias = Callable[[int], None]
"""Does so many operations; one is a session's start and its end."""
Look: TypeAlias = Callable[[], bool]
"""Takes one snapshot. False: it got none, since a writer stood still in the middle of a change for as long as it tried."""


def _sharded(words: memoryview, data: memoryview, index: int) -> Work:
    shard = Shard(words, data, LAYOUT, index)

    def work(operations: int) -> None:
        for _ in range(operations):
            shard.end(shard.start(_NAME, _EPOCH), EndReason.CLOSED_BY_CALLER)

    return work


def _let_others_run() -> None:
    time.sleep(50e-6)  # as the product's readers do


def _summed(words: memoryview) -> Look:
    def look() -> bool:
        try:
            return add_up(words, LAYOUT, _let_others_run).active >= 0
        except TornShard:
            return False

    return look


def _locked(lock: Any, words: memoryview) -> tuple[Work, Look]:  # Any: the two kinds of lock share no public type
    def work(operations: int) -> None:
        for _ in range(operations):
            with lock:
                words[0] += 1
            with lock:
                words[0] -= 1

    def look() -> bool:
        with lock:
            return words[0] >= 0

    return work, look


def _valued(value: Any) -> tuple[Work, Look]:  # Any: multiprocessing's synchronized wrapper has no public type
    def work(operations: int) -> None:
        for _ in range(operations):
            with value.get_lock():
                value.value += 1
            with value.get_lock():
                value.value -= 1

    def look() -> bool:
        with value.get_lock():
            return bool(value.value >= 0)

    return work, look


class _Attribute:
    count = 0

    def work(self, operations: int) -> None:
        for _ in range(operations):
            self.count += 1
            self.count -= 1

    def look(self) -> bool:
        return self.count is not None


def in_one_process(way: str) -> tuple[Callable[[int], Work], Look]:
    """A fresh counter of that kind: the work of each writer, by its number, and the snapshot."""
    if way == "sharded":
        data = memoryview(bytearray(LAYOUT.total_bytes))
        words = data.cast("Q")
        return (lambda index: _sharded(words, data, index)), _summed(words)
    if way == "attribute":
        attribute = _Attribute()
        return (lambda _: attribute.work), attribute.look
    cell = memoryview(bytearray(8)).cast("Q")
    work, look = _locked(threading.Lock(), cell) if way == "lock" else _valued(multiprocessing.Value("q", 0))
    return (lambda _: work), look


def in_processes(way: str, words: memoryview, data: memoryview, lock: Any, value: Any) -> tuple[Callable[[int], Work], Look]:
    """The same over memory that processes share. `lock`, `value`: as multiprocessing makes them (no public types)."""
    if way == "sharded":
        return (lambda index: _sharded(words, data, index)), _summed(words)
    work, look = _locked(lock, words) if way == "lock" else _valued(value)
    return (lambda _: work), look
