"""What a worker still holds: ledger entries, reservations, file descriptors, tasks."""

from __future__ import annotations

import contextlib
import os
import re
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anyio

from perf.fleet import get_json
from perf.processes import Program

__all__ = ["ProcessResidue", "residue_of"]

_ESTABLISHED = "01"
_TASKS = re.compile(r"^switchboard_runtime_tasks ([0-9.]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ProcessResidue:
    active: int
    reserved: int
    files: int
    tasks: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


async def residue_of(pid: int, supervisor: Program, runtime_id: str, balancer_pid: int) -> ProcessResidue:
    """Asks a worker over HTTP and looks at its descriptors; the asking itself counts the same each time.

    Connections of the balancer are not counted: its gRPC channel keeps one or two to a worker, as it sees fit, whatever calls do.
    """
    base = next(str(each["http"]) for each in supervisor.ready["workers"] if each["runtime_id"] == runtime_id)
    load = await anyio.to_thread.run_sync(get_json, f"{base}/v1/load")
    metrics = await anyio.to_thread.run_sync(_text, f"{base}/metrics")
    found = _TASKS.search(metrics)
    assert found, "a worker tells its tasks"
    files = len(os.listdir(f"/proc/{pid}/fd")) - _connections_between(pid, balancer_pid)
    return ProcessResidue(int(load["active"]), int(load["reserved"]), files, int(float(found.group(1))))


def _connections_between(pid: int, peer_pid: int) -> int:
    """Established loopback connections that both processes hold an end of; told by their ports, since one end may be an IPv6
    socket that speaks IPv4."""
    own, peers = _sockets(pid), _sockets(peer_pid)
    ends: dict[str, set[tuple[str, str]]] = {"own": set(), "peer": set()}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, local, remote, state, *_, inode = line.split()[:10]
            ports = local.rpartition(":")[2], remote.rpartition(":")[2]
            if state == _ESTABLISHED and f"socket:[{inode}]" in own:
                ends["own"].add(ports)
            elif state == _ESTABLISHED and f"socket:[{inode}]" in peers:
                ends["peer"].add((ports[1], ports[0]))
    return len(ends["own"] & ends["peer"])


def _sockets(pid: int) -> set[str]:
    found = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # closed since it was listed
            found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found


def _text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10.0) as answer:
        text: str = answer.read().decode()
        return text
