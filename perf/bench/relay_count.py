"""One port, one relay process and then several: `python -m perf.bench.relay_count --relays 1 2 --json`.

Each relay is pinned to a core of its own as far as there are any, and places every call on one backend. Backend and load
generator (perf/peers/frames.c) have no core to themselves: where the machine has no more cores than relays, they take from the
relays what they use, and the numbers are those of the whole machine. 64 and 512 connections, each with one 640-byte frame
outstanding; connections opened a second, 32 at once; frames a second both ways, and the CPU of all relays for each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import anyio

from perf.bench.machine import ForeignCpu, describe_machine, process_cpu_s, wait_until_quiet
from perf.bench.relay import relay_process
from perf.bench.relay_peers import backend_process
from perf.peers.build import NoCompiler, frames_program

_CONNECTIONS: Final = (64, 512)
_QUIET_CORES: Final = 0.1
_QUIET_WAIT_S: Final = 30.0


def _load(frames: Path, port: int, connections: int, seconds: float, pids: list[int], backend: int) -> dict[str, Any]:
    """`pids`: the relays; `backend`: its own. Raises RuntimeError where connections were lost."""
    command = [str(frames), "load", str(port), str(connections), str(round(seconds * 1000)), "0"]
    before_s = [process_cpu_s(pid) for pid in pids]
    with ForeignCpu(time.perf_counter, [*pids, backend]) as foreign:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:])
    found: dict[str, Any] = json.loads(done.stdout)
    used_s = [process_cpu_s(pid) - was_s for pid, was_s in zip(pids, before_s, strict=True)]
    found["relay_cpu_s"] = [round(each, 3) for each in used_s]
    found["frames_per_s"] = round(2 * found["round_trips"] / seconds)
    found["cpu_us_per_frame"] = round(sum(used_s) * 1e6 / max(1, 2 * found["round_trips"]), 2)
    found["foreign_cpu_cores"] = foreign.cores
    return found


async def bench(counts: list[int], seconds: float, told: Callable[[str], None]) -> dict[str, Any]:
    """`seconds`: of each load. Raises NoCompiler or RuntimeError."""
    cores = sorted(os.sched_getaffinity(0))
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="switchboard-relays-") as name:
        frames = frames_program(Path(name))
        with backend_process(frames) as backend:
            for count in counts:
                async with AsyncExitStack() as stack:
                    port, pids = 0, []
                    for number in range(count):
                        core = cores[number % len(cores)]
                        port, pid = await stack.enter_async_context(
                            relay_process(backend.port, core, "shared", "--port", str(port))
                        )
                        pids.append(pid)
                    is_quiet = await wait_until_quiet(time.perf_counter, pids, _QUIET_CORES, _QUIET_WAIT_S)
                    told(f"{count} relays" + ("" if is_quiet else "; others use the machine"))
                    _load(frames, port, _CONNECTIONS[0], min(1.0, seconds), pids, backend.pid)  # warms them up
                    found[str(count)] = {
                        str(each): _load(frames, port, each, seconds, pids, backend.pid) for each in _CONNECTIONS
                    }
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.bench.relay_count", description="Relays that share one port, measured.")
    parser.add_argument("--relays", type=int, nargs="+", default=[1, 2], help="how many, one after another (default 1 2)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each load (default 3)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    if not all(1 <= count <= 16 for count in arguments.relays) or not 0.1 <= arguments.seconds <= 60:
        parser.error("--relays are 1 to 16 each, --seconds 0.1 to 60")
    try:
        found = anyio.run(bench, arguments.relays, arguments.seconds, lambda text: print(f"relays: {text}", file=sys.stderr))
    except (NoCompiler, RuntimeError) as error:
        print(f"relays: {error}", file=sys.stderr)
        return 1
    result = {"ok": True, "targets": [], "relays": found, "seconds_each": arguments.seconds, "machine": describe_machine()}
    print(json.dumps(result) if arguments.json else "\n".join(f"{count}: {json.dumps(row)}" for count, row in found.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
