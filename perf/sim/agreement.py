"""Whether the simulator tells the truth: one scenario with real processes and simulated, side by side.

    python -m perf.sim.agreement --json

Fixed beforehand: three runtimes on synthetic engines, sixty callers whose starts and lengths are planned by the seed, one
runtime killed at 40 s and started again. A calibration before and after it measures what an idle runtime, a call and a start
cost on this machine; that, the plan, and how long the killed one was away is all that the simulation is given. Compared are each
runtime's share of the session-seconds and the mean CPU.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import math
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
import websockets
from websockets.asyncio.client import connect

from balancer.routing.load_rule import LoadRule
from balancer.routing.policies import POLICIES
from perf.bench.machine import ForeignCpu, describe_machine, process_cpu_s
from perf.fleet import LocalFleet, local_fleet
from perf.processes import Program, running
from perf.sim.chooser import Routers
from perf.sim.measures import Measures
from perf.sim.model import Always, Callers, Disturbance, Machines, Network, Scenario
from perf.sim.planned import Planned, PlannedCrowd, plan_of
from perf.sim.simulation import Simulation
from perf.targets import Target, all_met, as_json
from runtime.primitives.clock import NS_PER_S, MonotonicClock

__all__ = ["main"]

_RUNTIMES: Final = 3
_KILL_S: Final = 40.0
_BACK_S: Final = 10.0
_LENGTH_OF_RUN_S: Final = 110.0
_CALIBRATION_S: Final = 10.0
_CALIBRATION_SESSIONS: Final = 15
_CORES: Final = 2.0
_ALLOWED_CORES: Final = _CORES / _RUNTIMES
_FRAME_S: Final = 0.1
_SILENCE: Final = json.dumps(
    {"type": "input_audio_buffer.append", "audio": base64.b64encode(bytes(int(24_000 * _FRAME_S) * 2)).decode()}
)
_RUNTIME: Final = (
    "--engines", "synthetic", "--cores", str(_CORES), "--hard-limit", "40", "--synthetic-silence-ms-per-s", "8",
    "--guard-utilisation", "3",
)  # fmt: skip
_GROWN: Final = ("--inflow-ramp-s", "0")
"""The first three are no newcomers, as in the simulation; the one that is started again is."""
_BALANCER: Final = ("--public-port", "0", "--operator-port", "0", "--control-port", "0", "--report-interval-ms", "1000")
_WITHIN: Final = 0.10


@dataclass(slots=True)
class Found:
    held_s: list[float]
    mean_cpu: float
    started: int
    refused: int
    down_s: float

    @property
    def mean_sessions(self) -> float:
        return sum(self.held_s) / _LENGTH_OF_RUN_S

    @property
    def shares(self) -> list[float]:
        total = sum(self.held_s)
        return [each / total for each in self.held_s] if total else [0.0] * len(self.held_s)


def simulate(plan: list[Planned], costs: Costs, down_s: float, seed: int) -> Found:
    scenario = Scenario(
        "agreement",
        "the plan",
        machines=Machines(count=_RUNTIMES, u0=costs.idle, k=costs.call, g=0.0, hard_limit=40, start_work_s=costs.start_s),
        callers=Callers(talking=Always(0.0), quiet_cost=1.0),
        network=Network(report_interval_s=1.0, report_delay_s=0.002),
        balancers=1,
        warm_up_s=0.0,
        measured_s=_LENGTH_OF_RUN_S,
        disturbances=(Disturbance(_KILL_S, "restart", 1, down_s),),
    )
    run = Simulation(scenario, Routers(POLICIES["session_aware"]), LoadRule(report_interval_s=1.0), seed, PlannedCrowd(plan))
    measures: Measures = run.run()
    cpu = sum(measures.mean_utilisation) / len(measures.mean_utilisation)
    return Found(measures.held_s.tolist(), cpu, len(measures.startups), measures.refusals, down_s)


async def call(url: str, session_id: str, length_s: float, counts: dict[str, int]) -> None:
    """One caller who listens: silence in real time, until it has enough or its runtime dies."""
    try:
        async with connect(f"{url}?session_id={session_id}", max_queue=64, ping_interval=None) as socket:
            counts["started"] += 1
            with anyio.move_on_after(length_s), contextlib.suppress(websockets.ConnectionClosed):
                while True:
                    await socket.send(_SILENCE)
                    await anyio.sleep(_FRAME_S)
    except websockets.InvalidStatus:
        counts["refused"] += 1
    except (websockets.ConnectionClosed, OSError):
        counts["cut"] += 1


@dataclass(frozen=True, slots=True)
class Costs:
    """In shares of a runtime's allowance: idle, for each call, and (share-seconds) for each start."""

    idle: float
    call: float
    start_s: float

    def between(self, other: Costs) -> Costs:
        return Costs((self.idle + other.idle) / 2, (self.call + other.call) / 2, (self.start_s + other.start_s) / 2)


async def calibrate(fleet: LocalFleet, name: str) -> Costs:
    pid = fleet.runtimes[0].pid
    pause_s = 0.2
    ramp_s = _CALIBRATION_SESSIONS * pause_s

    async def used_during(wait: Callable[[], Awaitable[None]]) -> float:
        before = process_cpu_s(pid)
        await wait()
        return (process_cpu_s(pid) - before) / _ALLOWED_CORES

    await fleet.wait_for("no calls", lambda seen: seen["totals"]["active"] == 0, 30.0)
    await anyio.sleep(3.0)
    idle = await used_during(lambda: anyio.sleep(_CALIBRATION_S / 2)) / (_CALIBRATION_S / 2)
    counts = dict.fromkeys(("started", "refused", "cut"), 0)
    async with anyio.create_task_group() as tasks:

        async def begin() -> None:
            for number in range(_CALIBRATION_SESSIONS):
                session_id = f"calibration-{name}-{number}"
                tasks.start_soon(call, fleet.runtime_url(0), session_id, 3 * _CALIBRATION_S, counts)
                await anyio.sleep(pause_s)

        beginning = await used_during(begin)
        busy = await used_during(lambda: anyio.sleep(_CALIBRATION_S)) / _CALIBRATION_S
        tasks.cancel_scope.cancel()
    await fleet.wait_for("the calibration's calls to end", lambda seen: seen["totals"]["active"] == 0, 30.0)
    each = max(0.0, busy - idle) / _CALIBRATION_SESSIONS
    held_s = sum(pause_s * (number + 1) for number in range(_CALIBRATION_SESSIONS))
    return Costs(idle, each, max(0.0, beginning - idle * ramp_s - each * held_s) / _CALIBRATION_SESSIONS)


async def really(fleet: LocalFleet, plan: list[Planned], stack: AsyncExitStack, folder: Path, clock: MonotonicClock) -> Found:
    counts = dict.fromkeys(("started", "refused", "cut"), 0)
    held_s = dict.fromkeys((f"runtime-{number + 1}" for number in range(_RUNTIMES)), 0.0)
    programs: list[Program] = list(fleet.runtimes)
    cpu_s = [0.0] * _RUNTIMES
    last_cpu = [process_cpu_s(program.pid) for program in programs]
    began_ns = clock.now_ns()
    down_s = math.nan

    def elapsed_s() -> float:
        return (clock.now_ns() - began_ns) / NS_PER_S

    async def restart() -> None:
        await anyio.sleep(_KILL_S)
        os.kill(programs[1].pid, signal.SIGKILL)
        killed_s = elapsed_s()
        last_cpu[1] = math.nan
        await anyio.sleep(_BACK_S - 4.0)  # a start takes a few seconds
        control = str(fleet.balancer.ready["control"])
        own = ["--runtime-id", "runtime-2", "--balancers", control, "--cpu-share", str(1 / _RUNTIMES), *_RUNTIME]
        program = await stack.enter_async_context(running("runtime-2", "runtime", own, log=folder / "again.log"))
        await program.wait_ready()
        nonlocal down_s
        down_s = elapsed_s() - killed_s
        programs[1] = program
        last_cpu[1] = process_cpu_s(program.pid)

    async def watch() -> None:
        before_s = elapsed_s()
        while True:
            await anyio.sleep(0.5)
            seen = await fleet.document("/v1/fleet")
            now_s = elapsed_s()
            for each in seen["runtimes"]:
                held_s[each["runtime_id"]] += each["books"]["active"] * (now_s - before_s)
            before_s = now_s
            for number, program in enumerate(programs):
                if not math.isnan(last_cpu[number]):
                    used = process_cpu_s(program.pid)
                    cpu_s[number] += max(0.0, used - last_cpu[number])
                    last_cpu[number] = used

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(restart)
        tasks.start_soon(watch)
        for number, planned in enumerate(plan):
            await anyio.sleep(max(0.0, planned.at_s - elapsed_s()))
            tasks.start_soon(call, fleet.call_url, f"plan-{number}", planned.length_s, counts)
        await anyio.sleep(max(0.0, _LENGTH_OF_RUN_S - elapsed_s()))
        length_s = elapsed_s()
        tasks.cancel_scope.cancel()
    return Found(list(held_s.values()), sum(cpu_s) / length_s / _CORES, counts["started"], counts["refused"], down_s)


async def compare(seed: int) -> dict[str, Any]:
    clock = MonotonicClock()
    plan = plan_of(seed)
    with tempfile.TemporaryDirectory(prefix="switchboard-agreement-") as name:
        folder = Path(name)
        async with (
            local_fleet(
                _RUNTIMES, folder, balancer_arguments=list(_BALANCER), runtime_arguments=[*_RUNTIME, *_GROWN], told=_tell
            ) as fleet,
            AsyncExitStack() as stack,
        ):
            pids = (os.getpid(), fleet.balancer.pid, *(program.pid for program in fleet.runtimes))
            with ForeignCpu(lambda: clock.now_ns() / NS_PER_S, pids) as foreign:
                _tell("calibrating")
                before = await calibrate(fleet, "before")
                _tell(f"an idle runtime uses {before.idle:.3f} of its share, a call {before.call:.4f}")
                real = await really(fleet, plan, stack, folder, clock)
                _tell("calibrating again")
                after = await calibrate(fleet, "after")
    # What else the machine does changes what a call costs; the run lay between the two.
    costs = before.between(after)
    simulated = simulate(plan, costs, real.down_s, seed)
    targets = [
        Target(f"share_of_runtime_{number + 1}_off", abs(ours / theirs - 1.0), "of it", "<=", _WITHIN)
        for number, (ours, theirs) in enumerate(zip(simulated.shares, real.shares, strict=True))
    ]
    targets.append(Target("mean_cpu_off", abs(simulated.mean_cpu / real.mean_cpu - 1.0), "of it", "<=", _WITHIN))
    return {
        "ok": all_met(targets),
        "targets": as_json(targets),
        "real": _shown(real),
        "simulated": _shown(simulated),
        "calibration": {
            "idle_utilisation": round(costs.idle, 4),
            "utilisation_per_call": round(costs.call, 5),
            "utilisation_seconds_per_start": round(costs.start_s, 5),
            "seconds_down": round(real.down_s, 2),
        },
        "seed": seed,
        "foreign_cpu_cores": foreign.cores,
        "machine": describe_machine(),
    }


def _shown(found: Found) -> dict[str, Any]:
    return {
        "shares": [round(each, 4) for each in found.shares],
        "mean_sessions": round(found.mean_sessions, 3),
        "mean_cpu": round(found.mean_cpu, 4),
        "started": found.started,
        "refused": found.refused,
    }


def _tell(text: str) -> None:
    print(f"agreement: {text}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.sim.agreement", description="A simulated run beside a real one.")
    parser.add_argument("--seed", type=int, default=1, help="of the plan (default 1)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    result = anyio.run(compare, arguments.seed)
    if arguments.json:
        print(json.dumps(result))
    else:
        for name in ("real", "simulated"):
            print(f"{name:>10}: {result[name]}")
        for each in result["targets"]:
            print(f"{'met' if each['ok'] else 'MISSED'} {each['name']}: {each['value']} ({each['target']})")
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
