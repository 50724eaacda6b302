"""How long a place takes when many want one: `python -m perf.bench.dispatch --json`.

A balancer (with `--relays` a control and relays of their own) and three runtimes as processes (synthetic engines: nobody
speaks). Callers come at moments drawn by chance (a Poisson process, from the seed), whether the ones before them were answered or
not: an open loop. Each asks `POST /v1/assignments` on a connection of its own, as the front serves them, and each 201 is a real
`Reserve` that one of the runtimes admitted. The time of an assignment runs from the moment at which it was to begin to the last
byte of its answer, so what a late generator adds counts. Nobody comes with the tickets: places are held until they expire, ten
seconds later, as many as that makes at once.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, cast

import anyio

from perf.bench.machine import ForeignCpu, describe_machine, process_cpu_s, wait_until_quiet
from perf.fleet import LocalFleet, local_fleet
from perf.processes import ProgramFailed
from perf.relay_fleet import relay_fleet
from perf.targets import Target, all_met, as_json
from runtime.primitives.rng import Rng, SeededRng

__all__ = ["Answers", "arrivals", "main", "outcome"]

_RUNTIMES: Final = 3
_ROOM: Final = 20_000
_QUIET_WAIT_S: Final = 20.0
_NOISY_CORES: Final = 0.15
_LAST_ANSWERS_S: Final = 10.0
_WARM_UP_S: Final = 2.0
_PORTS: Final = ("--public-port", "0", "--operator-port", "0", "--control-port", "0")
_REQUEST: Final = b"POST /v1/assignments HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Answers:
    """What came of the assignments. Times in seconds since each was to begin."""

    def __init__(self) -> None:
        self.took_s: list[float] = []
        self.by_runtime: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.open = 0

    def add(self, due_s: float, now_s: float, answer: bytes) -> None:
        self.took_s.append(now_s - due_s)
        kind, runtime_id = outcome(answer)
        if runtime_id:
            self.by_runtime[runtime_id] += 1
        else:
            self.failed[kind] += 1

    def percentile_ms(self, share: float) -> float | None:
        """None where there are none. Failures count with the time that they took, those without an answer as the worst."""
        if not self.took_s:
            return None
        ordered = sorted(self.took_s)
        return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000, 2)


def outcome(answer: bytes) -> tuple[str, str]:
    """Of an HTTP answer: what kind it is, and the runtime that gave the place ("" where none did)."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 201 "):
        return head[9:12].decode("ascii", "replace") or "no answer", ""
    try:
        given = json.loads(body)
        return "201", given["runtime_id"] if given["ticket"] else ""
    except (ValueError, KeyError, TypeError):
        return "201 cut off", ""


def arrivals(per_s: float, seconds: float, rng: Rng) -> list[float]:
    """Moments of a Poisson process within `seconds`, in order: the nth falls where as many independent callers would put it."""
    count = round(per_s * seconds)
    return sorted(rng.random() * seconds for _ in range(count))


class _Caller(asyncio.Protocol):
    def __init__(self, answers: Answers, due_s: float) -> None:
        self._answers = answers
        self._due_s = due_s
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(_REQUEST)  # uvloop's are no asyncio.Transport

    def data_received(self, data: bytes) -> None:
        self._received += data

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # what was received says it
        self._answers.open -= 1
        self._answers.add(self._due_s, time.perf_counter(), self._received)


async def _load(address: str, moments: list[float], answers: Answers) -> float:
    """Answers how late the generator was at worst, in milliseconds."""
    loop = asyncio.get_running_loop()
    host, _, port = address.removeprefix("http://").rpartition(":")
    began_s, latest_s = time.perf_counter() + 0.05, 0.0

    async def call(due_s: float) -> None:
        answers.open += 1
        try:
            await loop.create_connection(lambda: _Caller(answers, due_s), host, int(port))
        except OSError:
            answers.open -= 1
            answers.add(due_s, time.perf_counter(), b"")

    gc.collect()
    gc.disable()  # a collection of ours would be in the balancer's times
    async with anyio.create_task_group() as group:
        for moment in moments:
            due_s = began_s + moment
            wait_s = due_s - time.perf_counter()
            if wait_s > 0:
                await anyio.sleep(wait_s)
            latest_s = max(latest_s, time.perf_counter() - due_s)
            group.start_soon(call, due_s)
    with anyio.move_on_after(_LAST_ANSWERS_S):
        while answers.open:  # noqa: ASYNC110  # of many connections, without an event of their own
            await anyio.sleep(0.01)
    gc.enable()
    for _ in range(answers.open):  # never answered: the worst of all
        answers.took_s.append(float("inf"))
        answers.failed["no answer"] += 1
    return round(latest_s * 1000, 2)


async def bench(per_s: float, seconds: float, seed: int, relays: int) -> dict[str, Any]:
    """Raises ProgramFailed or OSError."""
    runtime = [
        "--engines", "synthetic", "--hard-limit", str(_ROOM), "--inflow-depth", "1000000", "--inflow-ramp-s", "0",
        "--cpu-share", str(round(1 / _RUNTIMES, 3)),
    ]  # fmt: skip
    room = ["--cold-allowance", str(_ROOM)]
    rng = SeededRng(seed)
    with tempfile.TemporaryDirectory(prefix="switchboard-bench-") as logs:
        async with AsyncExitStack() as stack:
            if relays:
                parts = await stack.enter_async_context(
                    relay_fleet(
                        relays, _RUNTIMES, Path(logs), control_arguments=room, relay_arguments=[], runtime_arguments=runtime
                    )
                )
                fleet, fronts = parts.fleet, parts.relays
            else:
                whole = local_fleet(_RUNTIMES, Path(logs), balancer_arguments=[*_PORTS, *room], runtime_arguments=runtime)
                fleet, fronts = await stack.enter_async_context(whole), []
            pids = [each.pid for each in (fleet.balancer, *fleet.runtimes, *fronts)]
            is_quiet = await wait_until_quiet(time.perf_counter, pids, _NOISY_CORES, _QUIET_WAIT_S)
            await _load(fleet.public, arrivals(per_s, _WARM_UP_S, rng), Answers())
            return {"waited_for_quiet": is_quiet, **await _measured(fleet, pids, arrivals(per_s, seconds, rng), seconds)}


async def _measured(fleet: LocalFleet, pids: list[int], moments: list[float], seconds: float) -> dict[str, Any]:
    answers = Answers()
    before_s = [process_cpu_s(pid) for pid in pids]
    with ForeignCpu(time.perf_counter, pids) as foreign:
        late_ms = await _load(fleet.public, moments, answers)
    used = [round((process_cpu_s(pid) - was_s) / seconds, 3) for pid, was_s in zip(pids, before_s, strict=True)]
    books = (await fleet.document("/v1/fleet"))["books"]
    return {
        "assignments": len(moments),
        "answered": len(answers.took_s) - answers.failed["no answer"],
        "p50_ms": answers.percentile_ms(0.5),
        "p95_ms": answers.percentile_ms(0.95),
        "p99_ms": answers.percentile_ms(0.99),
        "max_ms": answers.percentile_ms(1.0),
        "failed": sum(answers.failed.values()),
        "failed_by_kind": dict(answers.failed),
        "by_runtime": dict(sorted(answers.by_runtime.items())),
        "generator_latest_ms": late_ms,
        "balancer_cpu_cores": used[0],
        "runtime_cpu_cores": used[1 : 1 + _RUNTIMES],
        "relay_cpu_cores": used[1 + _RUNTIMES :],
        "books_balanced": books["balanced"],
        "foreign_cpu_cores": foreign.cores,
        "noisy": foreign.cores is None or foreign.cores > _NOISY_CORES,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.bench.dispatch", description="How long a place takes at a rate.")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--rate", type=float, default=500.0, help="assignments a second (default 500)")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default 60)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments at which callers come (default 1)")
    parser.add_argument("--relays", type=int, choices=range(9), default=0, help="relays of their own, 0 to 8 (default 0)")
    arguments = parser.parse_args()
    if not (0 < arguments.rate <= 5_000 and 0 < arguments.seconds <= 600):
        parser.error("--rate is above 0 and at most 5000, --seconds above 0 and at most 600")
    print(f"dispatch: {arguments.rate:g} a second for {arguments.seconds:g} s on {_RUNTIMES} runtimes", file=sys.stderr)
    try:
        found = anyio.run(
            bench, arguments.rate, arguments.seconds, arguments.seed, arguments.relays, backend_options={"use_uvloop": True}
        )
    except (ProgramFailed, OSError) as error:
        message = " ".join(str(error).split())
        print(f"dispatch: {message}", file=sys.stderr)
        if arguments.json:
            print(json.dumps({"ok": False, "reason": message, "targets": []}))
        return 1
    targets = [
        Target("dispatch_p99", found["p99_ms"], "ms", "<", 30.0),
        Target("failed", float(found["failed"]), "assignments", "==", 0.0),
        Target("runtimes_that_reserved", float(len(found["by_runtime"])), "runtimes", ">=", float(_RUNTIMES)),
    ]
    result = {
        "ok": all_met(targets),
        "targets": as_json(targets),
        **found,
        "rate_per_s": arguments.rate,
        "seconds": arguments.seconds,
        "seed": arguments.seed,
        "machine": describe_machine(),
        "method": "open loop, Poisson arrivals, an HTTP connection each, from the due moment to the answer's end; one machine",
    }
    if arguments.json:
        print(json.dumps(result))
    else:
        print("\n".join(f"{target.name}: {target.value} {target.unit}" for target in targets))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
