"""What a worker still holds: ledger entries, reservations, file descriptors, tasks; and what this process still holds of it."""

from __future__ import annotations

import contextlib
import os
import re
import urllib.request
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import anyio

from perf.fleet import get_json
from perf.processes import Program

__all__ = ["ProcessResidue", "connections_to", "residue_of"]

_ESTABLISHED = "01"
_TASKS = re.compile(r"^switchboard_runtime_tasks ([0-9.]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ProcessResidue:
    active: int
    reserved: int
    files: int
    tasks: int


async def residue_of(pid: int, supervisor: Program, runtime_id: str) -> ProcessResidue:
    """Counts a worker's descriptors, then asks it over HTTP, which leaves one for a moment: do not look twice without a pause."""
    files = len(os.listdir(f"/proc/{pid}/fd"))
    base = next(str(each["http"]) for each in supervisor.ready["workers"] if each["runtime_id"] == runtime_id)
    load = await anyio.to_thread.run_sync(get_json, f"{base}/v1/load")
    metrics = await anyio.to_thread.run_sync(_text, f"{base}/metrics")
    found = _TASKS.search(metrics)
    assert found, "a worker tells its tasks"
    return ProcessResidue(int(load["active"]), int(load["reserved"]), files, int(float(found.group(1))))


def connections_to(ports: Collection[int]) -> int:
    """Established connections that this process holds to these ports; while there is one, its other end is no leak."""
    own = _own_sockets()
    count = 0
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, _, remote, state, *_, inode = line.split()[:10]
            is_there = int(remote.rpartition(":")[2], 16) in ports
            count += is_there and state == _ESTABLISHED and f"socket:[{inode}]" in own
    return count


def _own_sockets() -> set[str]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed since it was listed
            found.add(os.readlink(f"/proc/self/fd/{name}"))
    return found


def _text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10.0) as answer:
        text: str = answer.read().decode()
        return text
