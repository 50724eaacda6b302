"""Our relay beside other proxies, in the same place and on the same work: `python -m perf.bench.relay --json --peers`.

Each proxy runs alone on the first core; the load generator and the backend (perf/peers/frames.c) share the last. Loads: 64
connections flat out, 200 and 1,000 with a 640-byte frame each way every 20 ms; then 1,000 and 5,000 idle connections for memory.
Our relay keeps what callers say meanwhile, and forgets it by the backend's checkpoints, as in front of a runtime.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from perf.bench.machine import ForeignCpu, process_cpu_s, process_rss_bytes, wait_until_quiet
from perf.peers.build import frames_program
from perf.peers.proxies import PROXIES, Proxy, started
from perf.targets import Target

__all__ = ["backend_process", "compare", "frames_backend", "is_noisy", "targets_of"]

_FLAT_OUT: Final = 64
_PACED: Final = (200, 1_000)
_IDLE: Final = (1_000, 5_000)
_PERIOD_US: Final = 20_000
_CHECKPOINT_EVERY: Final = 75
"""Frames: one in 1.5 s at the pace of a call."""
_QUIET_CORES: Final = 0.1
_QUIET_WAIT_S: Final = 30.0
_OVER_HAPROXY: Final = 1.5
_SET_UP: Final = 2.0
_IDLE_KIB: Final = 10.0


async def compare(seconds: float, told: Callable[[str], None]) -> dict[str, Any]:
    """`seconds`: of each load on each proxy. Raises NoCompiler or ProxyFailed."""
    cores = sorted(os.sched_getaffinity(0))
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="switchboard-peers-") as name:
        folder = Path(name)
        frames = frames_program(folder)
        os.sched_setaffinity(0, {cores[-1]})
        try:
            with backend_process(frames) as backend:
                found["direct"] = {"flat_out": _load(frames, backend, backend.port, _FLAT_OUT, seconds)}
                for proxy in PROXIES:
                    is_quiet = await wait_until_quiet(time.perf_counter, (), _QUIET_CORES, _QUIET_WAIT_S)
                    told(f"{proxy.name}" + ("" if is_quiet else "; others use the machine"))
                    measured = _measure(proxy, folder, frames, backend, cores[0], seconds)
                    found[proxy.name] = measured if measured is not None else "not on this machine"
        finally:
            os.sched_setaffinity(0, set(cores))
    return found


def is_noisy(found: dict[str, Any]) -> bool:
    """Whether others used the machine during any of the loads."""
    loads = [load for row in found.values() if isinstance(row, dict) for load in row.values() if isinstance(load, dict)]
    others = [load["foreign_cpu_cores"] for load in loads if "foreign_cpu_cores" in load]
    return any(cores is None or cores > _QUIET_CORES for cores in others)


def targets_of(found: dict[str, Any]) -> list[Target]:
    relay, haproxy, envoy = (found.get(name) for name in ("relay", "haproxy", "envoy"))

    def ratio(of: str, ours: Any, theirs: Any) -> float | None:
        if not isinstance(ours, dict) or not isinstance(theirs, dict):
            return None
        return round(float(ours["flat_out"][of]) / float(theirs["flat_out"][of]), 2)

    slower = ratio("opened_per_s", haproxy, relay)
    idle = relay["idle_kib"][str(_IDLE[-1])] if isinstance(relay, dict) else None
    return [
        Target("cpu_per_frame_over_haproxy", ratio("cpu_us_per_frame", relay, haproxy), "times", "<=", _OVER_HAPROXY),
        Target("cpu_per_frame_over_envoy", ratio("cpu_us_per_frame", relay, envoy), "times", "<", 1.0),
        Target("set_up_over_haproxy", slower, "times", "<=", _SET_UP),
        Target("kib_per_idle_connection", idle, "KiB", "<", _IDLE_KIB),
    ]


@dataclass(frozen=True, slots=True)
class _Backend:
    port: int
    pid: int


def _measure(proxy: Proxy, folder: Path, frames: Path, backend: _Backend, core: int, seconds: float) -> dict[str, Any] | None:
    with started(proxy, folder, backend.port, core) as running:
        if running is None:
            return None
        port, pid = running
        found: dict[str, Any] = {"rss_mib": round(process_rss_bytes(pid) / 2**20, 1)}
        _load(frames, backend, port, _FLAT_OUT, min(1.0, seconds), proxy_pid=pid)  # warms it up
        found["flat_out"] = _load(frames, backend, port, _FLAT_OUT, seconds, proxy_pid=pid)
        for count in _PACED:
            found[f"paced_{count}"] = _load(frames, backend, port, count, seconds, _PERIOD_US, proxy_pid=pid)
    with started(proxy, folder, backend.port, core) as running:
        assert running is not None, "it was there a moment ago"
        port, pid = running
        found["idle_kib"] = {str(count): round(_idle_kib(frames, port, count, pid), 1) for count in _IDLE}
    return found


@contextmanager
def frames_backend(frames: Path) -> Iterator[int]:
    """The port of the WebSocket backend that the proxies here are measured in front of."""
    with backend_process(frames) as backend:
        yield backend.port


@contextmanager
def backend_process(frames: Path) -> Iterator[_Backend]:
    command = [str(frames), "serve", str(_CHECKPOINT_EVERY)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield _Backend(int(process.stdout.readline()), process.pid)
        finally:
            process.kill()


def _load(
    frames: Path, backend: _Backend, port: int, count: int, seconds: float, period_us: int = 0, *, proxy_pid: int = 0
) -> dict[str, Any]:
    """`proxy_pid` 0: there is none between."""
    command = [str(frames), "load", str(port), str(count), str(round(seconds * 1_000)), str(period_us)]
    before_s = process_cpu_s(proxy_pid) if proxy_pid else 0.0
    with ForeignCpu(time.perf_counter, [pid for pid in (backend.pid, proxy_pid) if pid]) as foreign:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:])
    found: dict[str, Any] = json.loads(done.stdout)
    if proxy_pid and found["round_trips"]:
        found["cpu_us_per_frame"] = round((process_cpu_s(proxy_pid) - before_s) * 1e6 / found["round_trips"] / 2, 2)
    found["foreign_cpu_cores"] = foreign.cores
    return found


def _idle_kib(frames: Path, port: int, count: int, pid: int) -> float:
    before = process_rss_bytes(pid)
    with subprocess.Popen(
        [str(frames), "hold", str(port), str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            if process.stdout.readline().strip() != "open":
                raise RuntimeError(f"{count} idle connections could not be opened")
            return (process_rss_bytes(pid) - before) / 1024 / count
        finally:
            process.kill()
