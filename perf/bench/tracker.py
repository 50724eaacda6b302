"""What counting a session costs: `python -m perf.bench.tracker --json [--plot FILE.png]`.

CPU nanoseconds an operation, ours beside three simpler ways, as writers grow. CPU and not wall time: threads of one process share
the interpreter lock. An operation is one session's start and end. The ways:

- sharded: a worker's shard of the machine's memory, one a writer; consistent, named, survives the writer's death
- lock: one integer behind one lock (`threading.Lock`; between processes `multiprocessing.Lock` around shared memory)
- value: one `multiprocessing.Value`, which brings its own lock
- attribute: a plain attribute without protection (threads only); what the interpreter itself costs
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.context import SpawnContext
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any, Final

from perf.bench.machine import ForeignCpu, describe_machine
from perf.targets import Target, all_met, as_json
from runtime.primitives.clock import NS_PER_S, MonotonicClock
from runtime.primitives.ids import Epoch, SessionId
from runtime.primitives.reasons import EndReason
from runtime.session.shared_layout import Layout
from runtime.session.shared_shard import Shard
from runtime.session.shared_totals import add_up

__all__ = ["cost_of_snapshot", "cost_of_threads", "main"]

_THREADS: Final = (1, 2, 4, 8)
_PROCESSES: Final = (1, 2, 4)
_LAYOUT: Final = Layout(shards=8, slots=64)
_NAME: Final = SessionId("session-0123456789abcdef")
_EPOCH: Final = Epoch(1)

Work = Callable[[int], None]
"""Does so many operations."""


def _sharded(words: memoryview, data: memoryview, index: int) -> Work:
    shard = Shard(words, data, _LAYOUT, index)

    def work(operations: int) -> None:
        for _ in range(operations):
            shard.end(shard.start(_NAME, _EPOCH), EndReason.CLOSED_BY_CALLER)

    return work


def _locked(lock: Any, words: memoryview) -> Work:  # Any: the two kinds of lock share no public type
    def work(operations: int) -> None:
        for _ in range(operations):
            with lock:
                words[0] += 1
            with lock:
                words[0] -= 1

    return work


def _valued(value: Any) -> Work:  # Any: multiprocessing's synchronized wrapper has no public type
    def work(operations: int) -> None:
        for _ in range(operations):
            with value.get_lock():
                value.value += 1
            with value.get_lock():
                value.value -= 1

    return work


class _Attribute:
    count = 0

    def work(self, operations: int) -> None:
        for _ in range(operations):
            self.count += 1
            self.count -= 1


def cost_of_threads(way: str, writers: int, operations: int) -> float:
    """CPU nanoseconds an operation with `writers` threads, `operations` each."""
    data = memoryview(bytearray(_LAYOUT.total_bytes))
    words = data.cast("Q")
    lock, value, attribute = threading.Lock(), multiprocessing.Value("q", 0), _Attribute()
    works: dict[str, Callable[[int], Work]] = {
        "sharded": lambda index: _sharded(words, data, index),
        "lock": lambda _: _locked(lock, words),
        "value": lambda _: _valued(value),
        "attribute": lambda _: attribute.work,
    }
    threads = [threading.Thread(target=works[way](index), args=(operations,)) for index in range(writers)]
    began_ns = time.process_time_ns()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (time.process_time_ns() - began_ns) / (writers * operations)


def _process(way: str, index: int, operations: int, name: str, lock: Any, value: Any, barrier: Any, results: Any) -> None:
    memory = SharedMemory(name)
    assert memory.buf is not None, "an open segment has a buffer"
    data = memory.buf[: _LAYOUT.total_bytes]
    words = data.cast("Q")
    work = {
        "sharded": lambda: _sharded(words, data, index),
        "lock": lambda: _locked(lock, words),
        "value": lambda: _valued(value),
    }[way]()
    work(operations // 10)  # warm
    barrier.wait(60)
    began_ns = time.process_time_ns()
    work(operations)
    results.put(time.process_time_ns() - began_ns)
    del work
    words.release()
    data.release()
    memory.close()


def _cost_of_processes(context: SpawnContext, way: str, writers: int, operations: int) -> float:
    memory = SharedMemory(create=True, size=_LAYOUT.total_bytes)
    try:
        results, barrier = context.Queue(64), context.Barrier(writers)
        lock, value = context.Lock(), context.Value("q", 0)
        children = [
            context.Process(
                target=_process, args=(way, index, operations, memory.name, lock, value, barrier, results), daemon=True
            )
            for index in range(writers)
        ]
        for child in children:
            child.start()
        used_ns = sum(results.get(timeout=120) for _ in children)
        for child in children:
            child.join(60)
        return float(used_ns) / (writers * operations)
    finally:
        memory.close()
        memory.unlink()


def cost_of_snapshot(operations: int) -> float:
    """CPU nanoseconds to add up the whole machine (8 shards) once."""
    words = memoryview(bytearray(_LAYOUT.total_bytes)).cast("Q")
    began_ns = time.process_time_ns()
    for _ in range(operations):
        add_up(words, _LAYOUT)
    return (time.process_time_ns() - began_ns) / operations


def _best(measure: Callable[[], float], rounds: int) -> float:
    return round(min(measure() for _ in range(rounds)), 1)


def _measure(operations: int, rounds: int) -> dict[str, Any]:
    threads: dict[str, dict[str, float]] = {}
    for way in ("sharded", "lock", "value", "attribute"):
        print(f"tracker: threads, {way}", file=sys.stderr)
        threads[way] = {
            str(writers): _best(lambda way=way, writers=writers: cost_of_threads(way, writers, operations // writers), rounds)  # type: ignore[misc]  # bound now
            for writers in _THREADS
        }
    processes: dict[str, dict[str, float]] = {}
    context = multiprocessing.get_context("spawn")
    for way in ("sharded", "lock", "value"):
        print(f"tracker: processes, {way}", file=sys.stderr)
        processes[way] = {
            str(writers): _best(lambda way=way, writers=writers: _cost_of_processes(context, way, writers, operations), 2)  # type: ignore[misc]  # bound now
            for writers in _PROCESSES
        }
    return {
        "threads_cpu_ns_per_start_and_end": threads,
        "processes_cpu_ns_per_start_and_end": processes,
        "snapshot_of_8_shards_cpu_ns": _best(lambda: cost_of_snapshot(operations // 20), rounds),
    }


def _plot(details: dict[str, Any], file: Path) -> None:
    from matplotlib import pyplot  # part of the dev extra; the bench runs without it

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axis, kind in zip(axes, ("threads", "processes"), strict=True):
        for way, costs in details[f"{kind}_cpu_ns_per_start_and_end"].items():
            axis.plot([int(writers) for writers in costs], list(costs.values()), marker="o", label=way)
        axis.set(xlabel=f"writers ({kind})", yscale="log", title=kind)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("CPU ns a start and end")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(file, dpi=110)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.bench.tracker", description="CPU cost of counting a session.")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--operations", type=int, default=40_000, help="start-and-end pairs a measurement [default: 40000]")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw cost over writers")
    arguments = parser.parse_args()
    if not 1_000 <= arguments.operations <= 10_000_000:
        parser.error(f"--operations is {arguments.operations}; allowed: 1000 to 10000000")
    machine = describe_machine()
    clock = MonotonicClock()
    with ForeignCpu(lambda: clock.now_ns() / NS_PER_S) as foreign:
        details = _measure(arguments.operations, rounds=3)
    cores = str(max(writers for writers in _PROCESSES if writers <= max(1, machine["cores"])))
    sharded_threads = details["threads_cpu_ns_per_start_and_end"]["sharded"]
    sharded_processes = details["processes_cpu_ns_per_start_and_end"]["sharded"]
    targets = [
        Target(f"sharded_{cores}_threads_over_1", round(sharded_threads[cores] / sharded_threads["1"], 3), "x", "<=", 1.5),
        Target(f"sharded_{cores}_processes_over_1", round(sharded_processes[cores] / sharded_processes["1"], 3), "x", "<=", 1.5),
    ]
    if arguments.plot:
        _plot(details, arguments.plot)
    result = {"ok": all_met(targets), "targets": as_json(targets), **details, "foreign_cores": foreign.cores, "machine": machine}
    if arguments.json:
        print(json.dumps(result))
    else:
        for target in result["targets"]:
            print(f"{target['name']}: {target['value']} ({target['target']}) {'met' if target['ok'] else 'missed'}")
        print(json.dumps(details, indent=2))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
