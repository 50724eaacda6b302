"""What counting a session costs: `python -m perf.bench.tracker --json [--plot FILE.png]`.

CPU nanoseconds an operation, ours beside three simpler ways, as writers grow. CPU and not wall time: threads of one process share
the interpreter lock. An operation is one session's start and end; a snapshot is what a reader needs for the machine's totals,
taken while all these writers write at full speed. The ways:

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.context import SpawnContext
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any, Final

from perf.bench.counting_ways import LAYOUT, Look, in_one_process, in_processes
from perf.bench.machine import ForeignCpu, describe_machine
from perf.plots import check_plot
from perf.targets import Target, all_met, as_json
from runtime.primitives.clock import NS_PER_S, MonotonicClock

__all__ = ["cost_of_snapshots", "cost_of_threads", "main"]

_THREADS: Final = (1, 2, 4, 8)
_PROCESSES: Final = (1, 2, 4)
_BATCH: Final = 200


def cost_of_threads(way: str, writers: int, operations: int) -> float:
    """CPU nanoseconds an operation with `writers` threads, `operations` each."""
    work_of, _ = in_one_process(way)
    threads = [threading.Thread(target=work_of(index), args=(operations,)) for index in range(writers)]
    began_ns = time.process_time_ns()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (time.process_time_ns() - began_ns) / (writers * operations)


def cost_of_snapshots(way: str, writers: int, snapshots: int) -> tuple[float, float]:
    """CPU nanoseconds a snapshot that was had, while `writers` threads write; and the share of tries that got none."""
    work_of, look = in_one_process(way)
    stop = threading.Event()

    def write(index: int) -> None:
        work = work_of(index)
        while not stop.is_set():
            work(_BATCH)

    threads = [threading.Thread(target=write, args=(index,), daemon=True) for index in range(writers)]
    for thread in threads:
        thread.start()
    try:
        return _looked(look, snapshots)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _looked(look: Look, snapshots: int) -> tuple[float, float]:
    had = tries = 0
    began_ns = time.thread_time_ns()
    while had < snapshots and tries < 10 * snapshots:
        had += look()
        tries += 1
    return (time.thread_time_ns() - began_ns) / max(1, had), 1.0 - had / tries


def _process(way: str, index: int, operations: int, name: str, lock: Any, value: Any, barrier: Any, results: Any) -> None:
    """A writer. `operations` 0: until it is ended."""
    memory = SharedMemory(name)
    assert memory.buf is not None, "an open segment has a buffer"
    data = memory.buf[: LAYOUT.total_bytes]
    words = data.cast("Q")
    work = in_processes(way, words, data, lock, value)[0](index)
    work(operations // 10 or _BATCH)  # warm
    barrier.wait(60)
    while not operations:
        work(_BATCH)
    began_ns = time.process_time_ns()
    work(operations)
    results.put(time.process_time_ns() - began_ns)
    del work
    words.release()
    data.release()
    memory.close()


@contextmanager
def _writing(context: SpawnContext, way: str, writers: int, operations: int) -> Iterator[tuple[Look, Any]]:
    """Writer processes that have begun; answers a snapshot of what they write and the queue of their results (no public type)."""
    memory = SharedMemory(create=True, size=LAYOUT.total_bytes)
    assert memory.buf is not None, "a new segment has a buffer"
    data = memory.buf[: LAYOUT.total_bytes]
    words = data.cast("Q")
    results, barrier = context.Queue(64), context.Barrier(writers + 1)
    lock, value = context.Lock(), context.Value("q", 0)
    children = [
        context.Process(target=_process, args=(way, index, operations, memory.name, lock, value, barrier, results), daemon=True)
        for index in range(writers)
    ]
    try:
        for child in children:
            child.start()
        barrier.wait(60)
        yield in_processes(way, words, data, lock, value)[1], results
        for child in children:
            if operations:
                child.join(60)
    finally:
        for child in children:
            child.kill()
            child.join(10)
        words.release()
        data.release()
        memory.close()
        memory.unlink()


def _cost_of_processes(context: SpawnContext, way: str, writers: int, operations: int) -> float:
    with _writing(context, way, writers, operations) as (_, results):
        return float(sum(results.get(timeout=120) for _ in range(writers))) / (writers * operations)


def _snapshots_beside_processes(context: SpawnContext, way: str, writers: int, snapshots: int) -> tuple[float, float]:
    with _writing(context, way, writers, 0) as (look, _):
        return _looked(look, snapshots)


def _best(measure: Callable[[], float], rounds: int) -> float:
    return round(min(measure() for _ in range(rounds)), 1)


def _measure(operations: int, rounds: int) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    snapshots = max(200, operations // 20)
    details: dict[str, Any] = {
        "threads_cpu_ns_per_start_and_end": {},
        "processes_cpu_ns_per_start_and_end": {},
        "threads_cpu_ns_per_snapshot": {},
        "processes_cpu_ns_per_snapshot": {},
        "snapshots_not_had": {},
    }
    for kind, counts in (("threads", _THREADS), ("processes", _PROCESSES)):
        for way in ("sharded", "lock", "value", "attribute") if kind == "threads" else ("sharded", "lock", "value"):
            print(f"tracker: {kind}, {way}", file=sys.stderr)
            writes, looks = {}, {}
            for writers in counts:
                if kind == "threads":
                    share = operations // writers
                    writes[str(writers)] = _best(lambda w=way, n=writers, o=share: cost_of_threads(w, n, o), rounds)  # type: ignore[misc]  # bound now
                    tried = [cost_of_snapshots(way, writers, snapshots) for _ in range(2)]
                else:
                    writes[str(writers)] = _best(lambda w=way, n=writers: _cost_of_processes(context, w, n, operations), 2)  # type: ignore[misc]  # bound now
                    tried = [_snapshots_beside_processes(context, way, writers, snapshots) for _ in range(2)]
                looks[str(writers)] = round(min(cost for cost, _ in tried), 1)
                if way == "sharded":
                    details["snapshots_not_had"][f"{kind} {writers}"] = round(max(missed for _, missed in tried), 5)
            details[f"{kind}_cpu_ns_per_start_and_end"][way] = writes
            details[f"{kind}_cpu_ns_per_snapshot"][way] = looks
    return details


def _plot(details: dict[str, Any], file: Path) -> None:
    from matplotlib import pyplot  # part of the dev extra; the bench runs without it

    figure, rows = pyplot.subplots(2, 2, figsize=(10, 7), sharey="row")
    for row, what in zip(rows, ("start_and_end", "snapshot"), strict=True):
        for axis, kind in zip(row, ("threads", "processes"), strict=True):
            for way, costs in details[f"{kind}_cpu_ns_per_{what}"].items():
                axis.plot([int(writers) for writers in costs], list(costs.values()), marker="o", label=way)
            axis.set(xlabel=f"writers ({kind})", yscale="log", title=f"{what.replace('_', ' ')}, {kind}")
            axis.grid(alpha=0.3)
        row[0].set_ylabel("CPU ns")
    rows[0][0].legend()
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
    if arguments.plot:
        try:
            check_plot(arguments.plot)
        except ValueError as error:
            parser.error(f"--{error}")
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
