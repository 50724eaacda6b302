"""`make soak`: a local fleet on synthetic engines, Locust callers on both wires, and what came of them.

    python -m perf.locust.soak --json --seconds 60 --users 10

One JSON object: targets with values, the distribution of sessions over runtimes, wrong placements, start-up and first audio, and
every counter that did not return to zero. Draws the run to a PNG. Exit status 1 where a target is missed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import anyio

from perf.bench.machine import ForeignCpu, describe_machine, process_cpu_s
from perf.fleet import LocalFleet, local_fleet
from perf.locust.committed import priced_cpu_s
from perf.locust.figures import FleetSample
from perf.locust.options import SoakOptions, parse_options
from perf.locust.plan import Habits
from perf.locust.plot import draw_soak
from perf.locust.record import SessionRecord
from perf.locust.summary import Run, summarise
from perf.locust.watch import runtime_names, settle, watch_fleet
from perf.processes import ProgramFailed
from runtime.primitives.clock import NS_PER_S, MonotonicClock

__all__ = ["main", "soak"]

_LOCUSTFILE: Final = Path(__file__).with_name("locustfile.py")
_STOP_S: Final = 15
"""Callers say goodbye within a second of being told to stop; the rest is for a machine that is slow."""
_SETTLE_S: Final = 20.0
_PORTS: Final = ["--public-port", "0", "--operator-port", "0", "--control-port", "0"]


def _tell(text: str) -> None:
    print(f"soak: {text}", file=sys.stderr, flush=True)


def _runtime_arguments(options: SoakOptions) -> list[str]:
    prices = options.prices
    values = {
        "--engines": "synthetic",
        "--cores": options.cores,
        "--hard-limit": options.hard_limit,
        "--synthetic-speech-ms-per-s": prices.speech_ms_per_s,
        "--synthetic-silence-ms-per-s": prices.silence_ms_per_s,
        "--synthetic-reply-ms-per-s": prices.reply_ms_per_s,
        "--synthetic-startup-ms": prices.startup_ms,
        "--synthetic-jitter": options.jitter,
        "--synthetic-seed": options.seed,
    }
    return [str(part) for pair in values.items() for part in pair]


def _locust_command(options: SoakOptions, fleet: LocalFleet, records: Path) -> list[str]:
    values: dict[str, object] = {
        "-f": _LOCUSTFILE,
        "--host": fleet.public,
        "--users": options.users,
        "--spawn-rate": max(0.5, options.users / max(2.0, options.seconds / 6)),
        "--run-time": f"{max(1, round(options.seconds))}s",
        "--stop-timeout": _STOP_S,
        "--loglevel": "WARNING",
        "--grpc-share": options.grpc_share,
        "--frame-ms": options.frame_ms,
        "--plan-seed": options.seed,
        "--records": records,
        **{f"--{field.name.replace('_', '-')}": getattr(options.habits, field.name) for field in fields(Habits)},
    }
    flags = ["--headless", "--only-summary", "--exit-code-on-error", "0", "--leave-with-stdin"]
    return [sys.executable, "-m", "locust", *flags, *(str(part) for pair in values.items() for part in pair)]


async def _run_locust(options: SoakOptions, fleet: LocalFleet, records: Path, log: Path) -> float:
    """Answers the CPU seconds that Locust used, as of shortly before its end. Raises ProgramFailed."""
    used_s = 0.0
    with log.open("wb") as output:
        process = await anyio.open_process(
            _locust_command(options, fleet, records), stdin=subprocess.PIPE, stdout=output, stderr=output
        )
        try:
            with anyio.move_on_after(options.seconds + 2 * _STOP_S + 15):
                while process.returncode is None:
                    used_s = process_cpu_s(process.pid) or used_s
                    with anyio.move_on_after(0.5):
                        await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
            with anyio.CancelScope(shield=True):
                await process.aclose()
    if process.returncode != 0:
        said = await anyio.Path(log).read_text(errors="replace")
        raise ProgramFailed(f"Locust ended with status {process.returncode}: {(said.strip() or 'it wrote nothing')[-300:]}")
    return used_s


def _cpu_s(fleet: LocalFleet) -> list[float]:
    return [process_cpu_s(program.pid) for program in fleet.runtimes]


async def soak(options: SoakOptions) -> dict[str, Any]:
    """Runs one soak and answers its result; writes the plot. Raises ProgramFailed, OSError."""
    clock = MonotonicClock()
    with tempfile.TemporaryDirectory(prefix="switchboard-soak-") as name:
        folder = Path(name)
        records = folder / "sessions.jsonl"
        records.touch()
        async with local_fleet(
            options.runtimes,
            folder,
            balancer_arguments=[*_PORTS, "--policy", options.policy],
            runtime_arguments=_runtime_arguments(options),
            told=_tell,
        ) as fleet:
            runtimes = runtime_names(fleet)
            pids = (fleet.balancer.pid, *(program.pid for program in fleet.runtimes))
            began_ns, cpu_before = clock.now_ns(), _cpu_s(fleet)
            samples: list[FleetSample] = []
            _tell(f"{options.users} callers for {options.seconds:g} s")
            with ForeignCpu(lambda: clock.now_ns() / NS_PER_S, pids) as foreign:
                async with anyio.create_task_group() as group:
                    group.start_soon(watch_fleet, fleet, clock, began_ns, samples)
                    locust_cpu_s = await _run_locust(options, fleet, records, folder / "locust.log")
                    group.cancel_scope.cancel()
            elapsed_s = (clock.now_ns() - began_ns) / NS_PER_S
            runtime_cpu_s = [after - before for after, before in zip(_cpu_s(fleet), cpu_before, strict=True)]
            _tell("all callers have gone; waiting for the counters")
            settled = await settle(fleet, _SETTLE_S)
        sessions = [SessionRecord.from_line(line) for line in records.read_text(encoding="utf-8").splitlines()]
    await anyio.to_thread.run_sync(draw_soak, samples, sessions, runtimes, began_ns, options.plot)
    run = Run(options, runtimes, sessions, samples, settled, sum(runtime_cpu_s), elapsed_s)
    result = summarise(run)
    # The callers' own CPU is no stranger's; Locust is gone when the reading is taken.
    foreign_cores = None if foreign.cores is None else round(max(0.0, foreign.cores - locust_cpu_s / elapsed_s), 3)
    return {
        **result,
        "cpu_s": {
            "runtimes": round(sum(runtime_cpu_s), 2),
            "priced": round(priced_cpu_s(sessions, options.prices), 2),
            "locust": round(locust_cpu_s, 2),
        },
        "plot": str(options.plot),
        "foreign_cores": foreign_cores,
        "machine": describe_machine(),
    }


def main() -> int:
    options = parse_options()
    try:
        result = anyio.run(soak, options)
    except (ProgramFailed, OSError) as error:
        message = " ".join(str(error).split())
        print(f"soak: {message}", file=sys.stderr)
        if options.json:
            print(json.dumps({"ok": False, "reason": message, "targets": []}))
        return 1
    except KeyboardInterrupt:
        return 130
    if options.json:
        print(json.dumps(result))
    else:
        for target in result["targets"]:
            print(
                f"{target['name']}: {target['value']} {target['unit']} ({target['target']}) {'met' if target['ok'] else 'MISSED'}"
            )
        print(json.dumps({key: value for key, value in result.items() if key not in ("targets", "over_time")}, indent=2))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
