"""Turn latency, CPU and memory of real calls: `python -m perf.bench.voice --calls 1,10 --json`.

One balancer and one runtime as processes of their own, with the real models. For each number of calls a wave: callers dial
through the balancer, spread over two seconds by the seed, and each speaks some of the demo's recordings one after another at
real-time pace, waiting for the whole answer in between. The latency of a turn is what its caller sees: last voiced sample sent
to first audio received. CPU is the processes' user and system time from /proc; the callers' own is told apart, since they share
the machine, and what the runtime uses without calls is measured first and not charged to them. The balancer's cold allowance is
raised to the number of calls: this measures the runtime, not the ramp-up.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio

from clients.conversation import speak_and_listen
from clients.realtime import RATE_HZ, CallFailed, connect
from perf.bench.call_plan import PlannedCall, plan_calls
from perf.bench.machine import ForeignCpu, describe_machine, process_cpu_s, process_rss_bytes, wait_until_quiet
from perf.bench.voice_figures import StageSums, Wave, figures, stage_means_ms, stage_sums, targets_of
from perf.demo.script import OWN_RECORDINGS, Recording, read_recordings
from perf.fleet import LocalFleet, get_json, local_fleet
from perf.processes import ProgramFailed
from perf.targets import all_met, as_json
from runtime.primitives.rng import SeededRng

_TURNS: Final = 3
_LEAST_TURNS: Final = 6
_SPREAD_S: Final = 2.0
_ANSWER_WITHIN_S: Final = 60.0
_SAMPLE_S: Final = 0.25
_QUIET_WAIT_S: Final = 20.0
_IDLE_S: Final = 4.0
_NOISY_CORES: Final = 0.15
"""CPU of others above which latencies of two cores are not to be compared."""


@dataclass(slots=True)
class _Tally:
    """What the callers of a wave bring together."""

    latencies_ms: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    withdrawn_replies: int = 0
    call_s: float = 0.0
    agent_s: float = 0.0
    rss_peak_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Idle:
    """The runtime without calls, before the first wave."""

    cores: float
    rss_bytes: int

    @classmethod
    async def measure(cls, pid: int) -> _Idle:
        began_s, used_s = time.perf_counter(), process_cpu_s(pid)
        await anyio.sleep(_IDLE_S)
        return cls((process_cpu_s(pid) - used_s) / (time.perf_counter() - began_s), process_rss_bytes(pid))


@dataclass(frozen=True, slots=True)
class _Reading:
    """Counters of the processes at one moment."""

    at_s: float
    runtime_cpu_s: float
    balancer_cpu_s: float
    caller_cpu_s: float
    missed_deadlines: int
    stages: StageSums

    @classmethod
    async def take(cls, fleet: LocalFleet) -> _Reading:
        http = str(fleet.runtimes[0].ready["http"])
        load = await anyio.to_thread.run_sync(get_json, f"{http}/v1/load")
        exposition = await anyio.to_thread.run_sync(_get_text, f"{http}/metrics")
        return cls(
            time.perf_counter(),
            process_cpu_s(fleet.runtimes[0].pid),
            process_cpu_s(fleet.balancer.pid),
            process_cpu_s(os.getpid()),
            int(load["missed_audio_deadlines"]),
            stage_sums(exposition),
        )


def _get_text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10.0) as answer:
        return str(answer.read().decode())


async def _call(fleet: LocalFleet, planned: PlannedCall, recordings: list[Recording], tally: _Tally) -> None:
    await anyio.sleep(planned.start_s)
    began_s = time.perf_counter()
    try:
        async with connect(fleet.call_url) as line:
            for index in planned.recordings:
                result = await speak_and_listen(line, recordings[index].samples, answer_within_s=_ANSWER_WITHIN_S)
                tally.latencies_ms.append(result.turn_latency_ms)
                tally.withdrawn_replies += result.interrupted_replies
                tally.agent_s += len(result.agent_samples) / RATE_HZ
    except CallFailed as error:
        tally.failures.append(str(error))
    tally.call_s += time.perf_counter() - began_s


async def _watch_memory(pid: int, tally: _Tally) -> None:
    while True:
        tally.rss_peak_bytes = max(tally.rss_peak_bytes, process_rss_bytes(pid))
        await anyio.sleep(_SAMPLE_S)


async def _wave(
    fleet: LocalFleet, calls: int, recordings: list[Recording], seed: int, idle: _Idle, told: Callable[[str], None]
) -> dict[str, Any]:
    rounds = -(-_LEAST_TURNS // (calls * _TURNS))
    rng = SeededRng(seed)
    plans = [plan_calls(calls, _TURNS, len(recordings), _SPREAD_S, rng) for _ in range(rounds)]
    pids = (fleet.balancer.pid, fleet.runtimes[0].pid)
    is_quiet = await wait_until_quiet(time.perf_counter, pids, _NOISY_CORES, _QUIET_WAIT_S)
    told(f"{calls} at once, {rounds} x {_TURNS} turns each" + ("" if is_quiet else "; others use the machine"))
    tally = _Tally()
    with ForeignCpu(time.perf_counter, pids) as foreign:
        before = await _Reading.take(fleet)
        async with anyio.create_task_group() as watch:
            watch.start_soon(_watch_memory, fleet.runtimes[0].pid, tally)
            for plan in plans:
                async with anyio.create_task_group() as group:
                    for planned in plan:
                        group.start_soon(_call, fleet, planned, recordings, tally)
            watch.cancel_scope.cancel()
        after = await _Reading.take(fleet)
    return figures(
        Wave(
            calls=calls,
            turns=rounds * calls * _TURNS,
            latencies_ms=tally.latencies_ms,
            failures=tally.failures,
            withdrawn_replies=tally.withdrawn_replies,
            wall_s=after.at_s - before.at_s,
            call_s=tally.call_s,
            agent_s=tally.agent_s,
            runtime_cpu_s=after.runtime_cpu_s - before.runtime_cpu_s,
            balancer_cpu_s=after.balancer_cpu_s - before.balancer_cpu_s,
            caller_cpu_s=after.caller_cpu_s - before.caller_cpu_s,
            idle_cores=idle.cores,
            rss_before_bytes=idle.rss_bytes,
            rss_peak_bytes=tally.rss_peak_bytes,
            missed_deadlines=after.missed_deadlines - before.missed_deadlines,
            stages_ms=stage_means_ms(before.stages, after.stages),
            foreign_cpu_cores=foreign.cores,
            is_noisy=foreign.cores is None or foreign.cores > _NOISY_CORES,
        )
    )


async def bench(calls: list[int], seed: int, told: Callable[[str], None]) -> dict[str, Any]:
    """Measures one wave after another on the same processes. Raises ProgramFailed or OSError."""
    recordings = read_recordings(OWN_RECORDINGS)
    ports = ["--public-port", "0", "--operator-port", "0", "--control-port", "0"]
    arguments = [*ports, "--cold-allowance", str(max(calls))]
    async with AsyncExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="switchboard-bench-")))
        fleet = await stack.enter_async_context(
            local_fleet(1, logs, balancer_arguments=arguments, runtime_arguments=[], told=told)
        )
        idle = await _Idle.measure(fleet.runtimes[0].pid)
        waves = [await _wave(fleet, count, recordings, seed, idle, told) for count in calls]
    targets = [target for wave in waves for target in targets_of(wave)]
    return {
        "ok": all_met(targets),
        "targets": as_json(targets),
        "waves": waves,
        "rss_idle_mib": round(idle.rss_bytes / 1024 / 1024, 1),
        "runtime_idle_core_percent": round(100 * idle.cores, 2),
        "noisy": any(wave["noisy"] for wave in waves),
        "seed": seed,
        "openblas_num_threads": os.environ.get("OPENBLAS_NUM_THREADS"),
        "machine": describe_machine(),
        "method": f"one balancer, one runtime, callers in a third process; {_TURNS} recordings a call, "
        f"dialled within {_SPREAD_S:g} s; percentiles by nearest rank",
    }


def _counts(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and 1 <= int(part) <= 32 for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: whole numbers from 1 to 32, comma separated")
    return [int(part) for part in parts]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.bench.voice", description="Turn latency, CPU and memory of real calls.")
    parser.add_argument("--calls", type=_counts, default=[1, 10], metavar="N,N", help="calls at once, 1-32 each (default 1,10)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--seed", type=int, default=1, help="seed of who calls when and says what (default 1)")
    arguments = parser.parse_args()

    def told(text: str) -> None:
        print(f"voice: {text}", file=sys.stderr)

    try:
        result = anyio.run(bench, arguments.calls, arguments.seed, told)
    except (ProgramFailed, OSError) as error:
        message = " ".join(str(error).split())
        told(message)
        if arguments.json:
            print(json.dumps({"ok": False, "reason": message, "targets": []}))
        return 1
    if arguments.json:
        print(json.dumps(result))
    else:
        for wave in result["waves"]:
            print(
                f"{wave['calls']:>3} calls: P50 {wave['turn_latency_p50_ms']} ms, P95 {wave['turn_latency_p95_ms']} ms, "
                f"{wave['runtime_core_percent_per_call']} % of a core and {wave['rss_per_call_mib']} MiB a call"
            )
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
