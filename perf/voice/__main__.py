"""Real conversations, measured: `python -m perf.voice --calls 1,10,20 --seconds 60 --seed 1 --json`.

One balancer and one runtime as processes of their own, with the real models. For each number of calls a wave: callers dial
through the balancer, spread over two seconds by the seed, and talk for `--seconds`. A turn is one or two of the demo's recordings
of human speech, with a natural pause between; the microphone stays open all the time. Some answers are interrupted by the next
turn, over some of them something is knocked over. Everything is measured as its caller has it: the latency of a turn runs from
its last voiced sample sent to the first audio received, an interruption from its first voiced sample sent to the last frame of
the agent. CPU is the processes' user and system time from /proc; the callers' own is told apart, since they share the machine,
and what the runtime uses without calls is measured first and not charged to them. The balancer's cold allowance is raised to the
number of calls: this measures the runtime, not the ramp-up.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio

from clients.realtime import CallFailed, connect
from perf.bench.machine import ForeignCpu, describe_machine, process_rss_bytes, wait_until_quiet
from perf.demo.script import OWN_RECORDINGS, Recording, read_recordings
from perf.fleet import LocalFleet, local_fleet
from perf.processes import ProgramFailed
from perf.targets import all_met, as_json
from perf.voice.caller import Caller, SpokenTurn
from perf.voice.figures import Wave, figures, largest_held, targets_of
from perf.voice.plan import Manners, TurnPlans, plan_starts
from perf.voice.readings import Idle, Reading
from runtime.primitives.rng import SeededRng

_SPREAD_S: Final = 2.0
_SAMPLE_S: Final = 0.25
_TELL_S: Final = 10.0
_QUIET_WAIT_S: Final = 20.0
_NOISY_CORES: Final = 0.15
"""CPU of others above which latencies of two cores are not to be compared."""
_MOST_CALLS: Final = 64
_LONGEST_S: Final = 3_600


@dataclass(slots=True)
class _Tally:
    """What the callers of a wave bring together."""

    turns: list[SpokenTurn] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    stale_frames: int = 0
    call_s: float = 0.0
    agent_s: float = 0.0
    rss_peak_bytes: int = 0


async def _call(
    fleet: LocalFleet, start_s: float, seconds: float, plans: TurnPlans, recordings: list[Recording], tally: _Tally
) -> None:
    await anyio.sleep(start_s)
    began_s = anyio.current_time()
    caller: Caller | None = None
    try:
        async with connect(fleet.call_url) as line:
            caller = Caller(line, recordings, plans, began_s + seconds)
            await caller.run()
    except* CallFailed as failures:
        tally.failures += [str(failure) for failure in failures.exceptions]
    tally.call_s += anyio.current_time() - began_s
    if caller is not None:
        tally.turns += caller.turns
        tally.failures += caller.listener.errors
        tally.agent_s += sum(reply.audio_s for reply in caller.listener.replies)
        tally.stale_frames += sum(reply.stale_frames for reply in caller.listener.replies)


async def _watch(pid: int, tally: _Tally, told: Callable[[str], None]) -> None:
    began_s = told_s = time.perf_counter()
    while True:
        tally.rss_peak_bytes = max(tally.rss_peak_bytes, process_rss_bytes(pid))
        await anyio.sleep(_SAMPLE_S)
        if time.perf_counter() - told_s >= _TELL_S:
            told_s = time.perf_counter()
            told(f"  {told_s - began_s:.0f} s, {tally.rss_peak_bytes / 1024 / 1024:.0f} MiB")


async def _wave(
    fleet: LocalFleet,
    calls: int,
    seconds: float,
    recordings: list[Recording],
    seed: int,
    idle: Idle,
    told: Callable[[str], None],
) -> dict[str, Any]:
    starts_s = plan_starts(calls, _SPREAD_S, SeededRng(seed))
    pids = (fleet.balancer.pid, fleet.runtimes[0].pid)
    is_quiet = await wait_until_quiet(time.perf_counter, pids, _NOISY_CORES, _QUIET_WAIT_S)
    told(f"{calls} at once for {seconds:g} s" + ("" if is_quiet else "; others use the machine"))
    tally = _Tally()
    with ForeignCpu(time.perf_counter, pids) as foreign:
        before = await Reading.take(fleet)
        async with anyio.create_task_group() as watch:
            watch.start_soon(_watch, fleet.runtimes[0].pid, tally, told)
            async with anyio.create_task_group() as group:
                for number, start_s in enumerate(starts_s):
                    plans = TurnPlans(len(recordings), Manners(), SeededRng(seed * 1_000 + number))
                    group.start_soon(_call, fleet, start_s, seconds, plans, recordings, tally)
            watch.cancel_scope.cancel()
        after = await Reading.take(fleet)
    return figures(
        Wave(
            calls=calls,
            turns=tally.turns,
            failures=tally.failures,
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
            stale_frames=tally.stale_frames,
            stale_frames_sent=after.stale_frames_sent - before.stale_frames_sent,
            commits_withdrawn=after.commits_withdrawn - before.commits_withdrawn,
            foreign_cpu_cores=foreign.cores,
            is_noisy=foreign.cores is None or foreign.cores > _NOISY_CORES,
        )
    )


async def bench(
    calls: list[int], seconds: float, seed: int, runtime_arguments: list[str], told: Callable[[str], None]
) -> dict[str, Any]:
    """Measures one wave after another on the same processes. Raises ProgramFailed or OSError."""
    recordings = read_recordings(OWN_RECORDINGS)
    ports = ["--public-port", "0", "--operator-port", "0", "--control-port", "0"]
    arguments = [*ports, "--cold-allowance", str(max(calls))]
    limits = ["--hard-limit", str(max(32, *calls)), *runtime_arguments]
    async with AsyncExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="switchboard-voice-")))
        fleet = await stack.enter_async_context(
            local_fleet(1, logs, balancer_arguments=arguments, runtime_arguments=limits, told=told)
        )
        idle = await Idle.measure(fleet.runtimes[0].pid)
        waves = [await _wave(fleet, count, seconds, recordings, seed, idle, told) for count in calls]
    targets = [target for wave in waves for target in targets_of(wave)]
    return {
        "ok": all_met(targets),
        "targets": as_json(targets),
        "waves": waves,
        "largest_held": largest_held(waves),
        "rss_idle_mib": round(idle.rss_bytes / 1024 / 1024, 1),
        "runtime_idle_core_percent": round(100 * idle.cores, 2),
        "noisy": any(wave["noisy"] for wave in waves),
        "seed": seed,
        "runtime_arguments": runtime_arguments,
        "openblas_num_threads": os.environ.get("OPENBLAS_NUM_THREADS"),
        "machine": describe_machine(),
        "method": f"one balancer, one runtime, callers in a third process, dialled within {_SPREAD_S:g} s, {seconds:g} s each; "
        "recorded human speech; percentiles by nearest rank over turns",
    }


def _counts(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and 1 <= int(part) <= _MOST_CALLS for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: whole numbers from 1 to {_MOST_CALLS}, comma separated")
    return [int(part) for part in parts]


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 5.0 <= seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: 5 to {_LONGEST_S} seconds")
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.voice", description="Real conversations, measured.")
    parser.add_argument("--calls", type=_counts, default=[1, 10], metavar="N,N", help="calls at once (default 1,10)")
    parser.add_argument("--seconds", type=_seconds, default=60.0, help="how long each call lasts (default 60)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--seed", type=int, default=1, help="seed of who calls when and says what (default 1)")
    parser.add_argument("--runtime", action="append", default=[], metavar="ARG", help="a further argument for the runtime")
    arguments = parser.parse_args()

    def told(text: str) -> None:
        print(f"voice: {text}", file=sys.stderr)

    try:
        result = anyio.run(bench, arguments.calls, arguments.seconds, arguments.seed, arguments.runtime, told)
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
            latency, interruption = wave["turn_latency_ms"], wave["interruption_ms"]
            print(
                f"{wave['calls']:>3} calls: answer P50 {latency['p50']}, P95 {latency['p95']} ms; "
                f"interruption P95 {interruption['p95']} ms; {wave['stale_frames']} stale frames; "
                f"{wave['runtime_core_percent_per_call']} % of a core and {wave['rss_per_call_mib']} MiB a call"
            )
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
