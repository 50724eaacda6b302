"""What a measurement must say of where it was made: the machine, the commit, and the CPU that others used meanwhile."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import anyio

__all__ = ["ForeignCpu", "describe_machine", "process_cpu_s", "process_rss_bytes", "wait_until_quiet"]

_REFERENCE_STEPS: Final = 1_000_000
_USER_HZ: Final = os.sysconf("SC_CLK_TCK")


def describe_machine() -> dict[str, Any]:
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"], capture_output=True, text=True, check=False
    ).stdout.strip()
    models = [line.partition(":")[2].strip() for line in _read("/proc/cpuinfo").splitlines() if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "commit": commit or None,
        "reference_ms": _reference_ms(),
    }


def _reference_ms() -> float:
    """CPU time of a fixed piece of Python, the best of three: a host that is shared runs at up to half its speed."""
    times_s = []
    for _ in range(3):
        began_s = time.process_time()
        sum(range(_REFERENCE_STEPS))
        times_s.append(time.process_time() - began_s)
    return round(min(times_s) * 1_000, 1)


class ForeignCpu:
    """Context manager around a measurement: `cores` is the CPU, in cores, that the rest of the machine used meanwhile.

    What the given processes, this one and its children that have ended used is subtracted; None where /proc does not tell.
    `pids` is read anew at the end: processes that were started meanwhile may have joined it.
    """

    def __init__(self, now_s: Callable[[], float], pids: Sequence[int] = ()) -> None:
        self._now_s = now_s
        self._pids = pids
        self.cores: float | None = None

    def __enter__(self) -> ForeignCpu:
        self._began = self._now_s(), self._busy_s(), self._own_s()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        began_s, busy_s, own_s = self._began
        elapsed_s = self._now_s() - began_s
        if busy_s is not None and elapsed_s > 0:
            busy_now_s = self._busy_s()
            assert busy_now_s is not None
            self.cores = round(max(0.0, (busy_now_s - busy_s) - (self._own_s() - own_s)) / elapsed_s, 3)

    def _busy_s(self) -> float | None:
        fields = _read("/proc/stat").partition("\n")[0].split()[1:]
        if len(fields) < 8:
            return None
        user, nice, system, _idle, _iowait, irq, softirq, steal = (int(field) for field in fields[:8])
        return (user + nice + system + irq + softirq + steal) / _USER_HZ

    def _own_s(self) -> float:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return sum(process_cpu_s(pid) for pid in (os.getpid(), *self._pids)) + ended.ru_utime + ended.ru_stime


async def wait_until_quiet(now_s: Callable[[], float], pids: Sequence[int], below_cores: float, within_s: float) -> bool:
    """Waits until the rest of the machine used less than `below_cores` for a second; False where that did not come in time."""
    end_s = now_s() + within_s
    while True:
        with ForeignCpu(now_s, pids) as foreign:
            await anyio.sleep(1.0)
        if foreign.cores is not None and foreign.cores < below_cores:
            return True
        if now_s() >= end_s:
            return False


def process_cpu_s(pid: int) -> float:
    """User and system time of a process so far; 0 where /proc does not tell."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _USER_HZ if len(fields) > 12 else 0.0


def process_rss_bytes(pid: int) -> int:
    """Resident memory of a process; 0 where /proc does not tell."""
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
