"""CPU of the relay for each relayed 640-byte frame (20 ms of audio): `python -m perf.bench.relay --json`.

A plain splice of bytes on the same event loop is measured first: it is what this machine costs before any relay work. The relay
runs alone in its own process, pinned to the first core; callers and backend run in this one, pinned to the last. The
same traffic goes through the relay and directly to the backend in one run. Two loads: saturated (64 connections, one frame
outstanding on each) and paced (100 connections, a frame every 20 ms on each; that mostly measures waking a sleeping core). CPU
is the relay process's user and system time from /proc; a round trip relays two frames.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import anyio

from perf.bench.machine import ForeignCpu, describe_machine
from perf.bench.relay_peers import compare, is_noisy, targets_of
from perf.bench.relay_traffic import PAYLOAD_BYTES, EchoBackend, PingPongCaller
from perf.peers.build import NoCompiler
from perf.peers.proxies import ProxyFailed
from perf.targets import Target, all_met, as_json

_TARGET_US: Final = 5.0
_TARGET_OVER_SPLICE: Final = 1.25
_SATURATED_CONNECTIONS: Final = 64
_PACED_CONNECTIONS: Final = 100
_PERIOD_S: Final = 0.02
_DIAL_LIMIT_S: Final = 10.0


class BenchCaller(Protocol):
    transport: asyncio.Transport
    sent_ns: int

    def send(self, now_ns: int) -> None: ...


MakesCaller = Callable[[Callable[[], None], Callable[[Any], None]], Any]  # Any: a BenchCaller that is a protocol of asyncio


class Load:
    """Callers on one address, of the kind that `make` makes. Counts answers and how long each took."""

    def __init__(self, saturated: bool, make: MakesCaller = PingPongCaller) -> None:
        self._saturated = saturated
        self._make = make
        self.took_ns: list[int] = []
        self.is_running = False
        self._unopened = 0
        self._all_open = asyncio.Event()
        self.callers: list[BenchCaller] = []

    async def open(self, port: int, count: int) -> None:
        loop = asyncio.get_running_loop()
        self._unopened = count
        with anyio.fail_after(_DIAL_LIMIT_S):
            for _ in range(count):
                _, caller = await loop.create_connection(lambda: self._make(self._opened, self._answered), "127.0.0.1", port)
                self.callers.append(caller)
            await self._all_open.wait()

    async def run(self, seconds: float) -> None:
        self.is_running = True
        began_s = time.perf_counter()
        if self._saturated:
            for caller in self.callers:
                caller.send(time.perf_counter_ns())
            await anyio.sleep(seconds)
        else:
            # Callers are spread over the period, as unrelated calls are.
            step_s = _PERIOD_S / len(self.callers)
            number = 0
            while (now_s := time.perf_counter() - began_s) < seconds:
                while number * step_s <= now_s:
                    self.callers[number % len(self.callers)].send(time.perf_counter_ns())
                    number += 1
                await anyio.sleep(step_s * 4)
        self.is_running = False

    def close(self) -> None:
        for caller in self.callers:
            caller.transport.abort()

    def _opened(self) -> None:
        self._unopened -= 1
        if not self._unopened:
            self._all_open.set()

    def _answered(self, caller: BenchCaller) -> None:
        now_ns = time.perf_counter_ns()
        if self.is_running:
            self.took_ns.append(now_ns - caller.sent_ns)
            if self._saturated:
                caller.send(now_ns)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(
    port: int, saturated: bool, seconds: float, relay_pid: int, make: MakesCaller = PingPongCaller
) -> dict[str, Any]:
    load = Load(saturated, make)
    await load.open(port, _SATURATED_CONNECTIONS if saturated else _PACED_CONNECTIONS)
    with ForeignCpu(time.perf_counter, (relay_pid,)) as foreign:
        before_s = cpu_s(relay_pid)
        await load.run(seconds)
        used_s = cpu_s(relay_pid) - before_s
    load.close()
    took = sorted(load.took_ns)
    trips = len(took)
    return {
        "round_trips": trips,
        "round_trips_per_s": round(trips / seconds),
        "p50_us": round(took[trips // 2] / 1000, 1) if trips else None,
        "p99_us": round(took[int(trips * 0.99)] / 1000, 1) if trips else None,
        "relay_cpu_us_per_frame": round(used_s * 1e6 / trips / 2, 2) if trips else None,
        "relay_cores": round(used_s / seconds, 3),
        "foreign_cpu_cores": foreign.cores,
    }


def memory_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


@asynccontextmanager
async def relay_process(backend_port: int, core: int, *words: str) -> AsyncIterator[tuple[int, int]]:
    """Its (port, pid), pinned to `core`; ends by itself when its input closes, else it is killed."""
    process = subprocess.Popen(  # noqa: ASYNC220  # before any load: nothing waits on the loop yet
        [sys.executable, "-m", "perf.bench.relay_process", f"127.0.0.1:{backend_port}", *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port = int(await anyio.to_thread.run_sync(process.stdout.readline))
        os.sched_setaffinity(process.pid, {core})
        yield port, process.pid
    finally:
        process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


async def bench(seconds: float) -> dict[str, Any]:
    cores = sorted(os.sched_getaffinity(0))
    loop = asyncio.get_running_loop()
    backend = await loop.create_server(EchoBackend, "127.0.0.1", 0)
    backend_port = backend.sockets[0].getsockname()[1]
    os.sched_setaffinity(0, {cores[-1]})
    found: dict[str, Any] = {}
    try:
        async with relay_process(backend_port, cores[0], "splice") as (port, pid):
            print(f"saturated, plain splice: {seconds:g} s ...", file=sys.stderr)
            found["saturated_splice"] = await measure(port, True, seconds, pid)
        async with relay_process(backend_port, cores[0]) as (port, pid):
            found |= await bench_relay(backend_port, port, pid, seconds)
    finally:
        os.sched_setaffinity(0, set(cores))
        backend.close()
    return found


async def bench_relay(backend_port: int, port: int, pid: int, seconds: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, saturated in (("saturated", True), ("paced", False)):
        for path, at in (("direct", backend_port), ("relayed", port)):
            print(f"{name}, {path}: {seconds:g} s ...", file=sys.stderr)
            found[f"{name}_{path}"] = await measure(at, saturated, seconds, pid)
    idle = Load(saturated=False)
    before_kib = memory_kib(pid)
    await idle.open(port, 500)
    found["kib_per_idle_connection"] = round((memory_kib(pid) - before_kib) / 500, 1)
    idle.close()
    return found


def _beside_peers(seconds: float, seed: int, *, is_json: bool) -> int:
    try:
        found = anyio.run(compare, seconds, lambda text: print(f"relay: {text}", file=sys.stderr))
    except (NoCompiler, ProxyFailed, RuntimeError) as error:
        print(f"relay: {error}", file=sys.stderr)
        if is_json:
            print(json.dumps({"ok": False, "reason": str(error), "targets": []}))
        return 1
    targets = targets_of(found)
    result = {
        "ok": all_met(targets),
        "targets": as_json(targets),
        **found,
        "noisy": is_noisy(found),
        "seconds_each": seconds,
        "payload_bytes": PAYLOAD_BYTES,
        "seed": seed,
        "machine": describe_machine(),
        "method": "each proxy alone on the first core with one worker, load generator and backend on the last; CPU from /proc",
    }
    print(json.dumps(result) if is_json else "\n".join(f"{name}: {json.dumps(row)}" for name, row in found.items()))
    return 0 if result["ok"] else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.bench.relay", description="CPU of the relay for each relayed frame.")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--seed", type=int, default=1, help="accepted for symmetry; this load draws nothing by chance")
    parser.add_argument("--seconds", type=float, default=12.0, help="about how long to measure in all (default 12)")
    parser.add_argument("--peers", action="store_true", help="beside HAProxy, Envoy and nginx, as far as they are here")
    arguments = parser.parse_args()
    if arguments.peers:
        return _beside_peers(arguments.seconds / 4, arguments.seed, is_json=arguments.json)
    found = anyio.run(bench, arguments.seconds / 5, backend_options={"use_uvloop": True})
    cost = found["saturated_relayed"]["relay_cpu_us_per_frame"]
    splice = found["saturated_splice"]["relay_cpu_us_per_frame"]
    over_splice = round(cost / splice, 2) if cost and splice else None
    targets = [
        Target("relay_cpu_per_frame_saturated", cost, "us", "<", _TARGET_US),
        Target("relay_cpu_over_plain_splice", over_splice, "times", "<=", _TARGET_OVER_SPLICE),
    ]
    result = {
        "ok": all_met(targets),
        "targets": as_json(targets),
        **found,
        "payload_bytes": PAYLOAD_BYTES,
        "seed": arguments.seed,
        "machine": describe_machine(),
        "method": "relay alone in its own process on the first core, callers and backend on the last; CPU from /proc/PID/stat",
    }
    if arguments.json:
        print(json.dumps(result))
    else:
        print(f"relay: {cost} us of CPU a frame saturated, {found['paced_relayed']['relay_cpu_us_per_frame']} us paced")
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
