"""Raw readings of this process and its machine from the kernel. Where a file is missing the reading says so."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["MachineCpu", "affinity_cores", "resident_bytes", "used_cpu_ns"]

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def used_cpu_ns() -> int:
    """CPU time of this process and of its children that have ended, nanoseconds."""
    times = os.times()
    return int((times.user + times.system + times.children_user + times.children_system) * 1e9)


def resident_bytes() -> int:
    """Resident memory of this process; 0 where the kernel does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return 0


def affinity_cores() -> int:
    """Cores that the scheduler lets us use, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


class MachineCpu:
    """Busy share of the whole machine since the last call, from /proc/stat."""

    def __init__(self) -> None:
        self._last = self._read()

    def busy_ratio(self) -> float:
        """0-1; -1 where the kernel does not say or nothing has passed."""
        now = self._read()
        last, self._last = self._last, now
        if now is None or last is None or now[1] <= last[1]:
            return -1.0
        return min(1.0, max(0.0, 1.0 - (now[0] - last[0]) / (now[1] - last[1])))

    @staticmethod
    def _read() -> tuple[int, int] | None:
        """(idle, total) ticks."""
        try:
            fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        except (OSError, ValueError):
            return None
        return (fields[3] + fields[4], sum(fields)) if len(fields) >= 5 else None
