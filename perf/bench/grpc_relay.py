"""CPU of our door for gRPC callers for each message, beside Envoy as a gRPC proxy: `python -m perf.bench.grpc_relay --json`.

Each proxy runs alone on the first core with one worker; callers and backend share the last. Loads: 64 streams with one 640-byte
message outstanding on each, flat out, and 100 with a message every 20 ms each way. Each stream has a connection of its own.
Then 500 calls are opened and left idle.
The callers are the same for both. What is behind differs, because it is what each is for: our door speaks WebSocket to a runtime
(perf/peers/frames.c, which says checkpoints as a runtime does, so that messages are kept), Envoy HTTP/2 to a gRPC server
(perf/bench/grpc_traffic.py). "Direct" is that gRPC server without anything between: what an assignment saves.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import anyio

from perf.bench.grpc_traffic import PAYLOAD_BYTES, EchoServer, StreamCaller
from perf.bench.machine import describe_machine, process_rss_bytes, wait_until_quiet
from perf.bench.relay import Load, measure
from perf.bench.relay_peers import frames_backend, is_noisy
from perf.peers.build import NoCompiler, frames_program
from perf.peers.proxies import GRPC_DOOR, GRPC_ENVOY, Proxy, ProxyFailed, started
from perf.targets import Target, all_met, as_json

_OVER_ENVOY: Final = 2.0
_QUIET_CORES: Final = 0.1
_QUIET_WAIT_S: Final = 30.0
_WARM_S: Final = 0.5
_IDLE: Final = 500


async def compare(seconds: float, told: Callable[[str], None]) -> dict[str, Any]:
    """`seconds`: of each load on each way. Raises NoCompiler or ProxyFailed."""
    cores = sorted(os.sched_getaffinity(0))
    loop = asyncio.get_running_loop()
    echo = await loop.create_server(EchoServer, "127.0.0.1", 0)
    echo_port = echo.sockets[0].getsockname()[1]
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="switchboard-grpc-") as name:
        folder = Path(name)
        os.sched_setaffinity(0, {cores[-1]})
        try:
            with frames_backend(frames_program(folder)) as frames_port:
                told("direct")
                found["direct"] = await _loads(echo_port, os.getpid(), seconds)
                for proxy, backend in ((GRPC_DOOR, frames_port), (GRPC_ENVOY, echo_port)):
                    is_quiet = await wait_until_quiet(time.perf_counter, (), _QUIET_CORES, _QUIET_WAIT_S)
                    told(f"{proxy.name}" + ("" if is_quiet else "; others use the machine"))
                    found[proxy.name] = await _through(proxy, folder, backend, cores[0], seconds)
        finally:
            os.sched_setaffinity(0, set(cores))
            echo.close()
    del found["direct"]["flat_out"]["relay_cpu_us_per_frame"], found["direct"]["paced"]["relay_cpu_us_per_frame"]
    return found


async def _through(proxy: Proxy, folder: Path, backend: int, core: int, seconds: float) -> dict[str, Any] | str:
    with started(proxy, folder, backend, core) as running:
        return "not on this machine" if running is None else await _loads(*running, seconds) | await _idle(*running)


async def _idle(port: int, pid: int) -> dict[str, Any]:
    """Calls that were opened one after another, and say nothing more."""
    load, before_bytes, began_s = Load(saturated=False, make=StreamCaller), process_rss_bytes(pid), time.perf_counter()
    await load.open(port, _IDLE)
    took_s = time.perf_counter() - began_s
    kib = (process_rss_bytes(pid) - before_bytes) / 1024 / _IDLE
    load.close()
    return {"opened_per_s": round(_IDLE / took_s), "kib_per_idle_call": round(kib, 1)}


async def _loads(port: int, pid: int, seconds: float) -> dict[str, Any]:
    await measure(port, True, min(_WARM_S, seconds), pid, StreamCaller)
    return {
        "flat_out": await measure(port, True, seconds, pid, StreamCaller),
        "paced": await measure(port, False, seconds, pid, StreamCaller),
    }


def targets_of(found: dict[str, Any]) -> list[Target]:
    """`cpu_us` of each message; None where Envoy is not on this machine."""

    def over_envoy(load: str) -> float | None:
        ours, theirs = (found[name] for name in (GRPC_DOOR.name, GRPC_ENVOY.name))
        if not isinstance(ours, dict) or not isinstance(theirs, dict):
            return None
        name = "relay_cpu_us_per_frame"
        return round(float(ours[load][name]) / float(theirs[load][name]), 2)

    return [
        Target("cpu_per_message_over_envoy_flat_out", over_envoy("flat_out"), "times", "<=", _OVER_ENVOY),
        Target("cpu_per_message_over_envoy_paced", over_envoy("paced"), "times", "<=", _OVER_ENVOY),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.bench.grpc_relay", description="Our gRPC door beside Envoy.")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--seed", type=int, default=1, help="accepted for symmetry; this load draws nothing by chance")
    parser.add_argument("--seconds", type=float, default=12.0, help="about how long to measure in all (default 12)")
    arguments = parser.parse_args()

    def told(text: str) -> None:
        print(f"grpc_relay: {text}", file=sys.stderr)

    try:
        found = anyio.run(compare, arguments.seconds / 6, told, backend_options={"use_uvloop": True})
    except (NoCompiler, ProxyFailed) as error:
        told(str(error))
        if arguments.json:
            print(json.dumps({"ok": False, "reason": str(error), "targets": []}))
        return 1
    targets = targets_of(found)
    result = {
        "ok": all_met(targets),
        "targets": as_json(targets),
        **found,
        "noisy": is_noisy(found),
        "payload_bytes": PAYLOAD_BYTES,
        "seed": arguments.seed,
        "machine": describe_machine(),
        "method": "each proxy alone on the first core with one worker, callers and backend on the last; CPU from /proc",
    }
    print(json.dumps(result) if arguments.json else "\n".join(f"{name}: {json.dumps(row)}" for name, row in result.items()))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
