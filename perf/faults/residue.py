"""What a worker still holds: ledger entries, reservations, file descriptors, tasks."""

from __future__ import annotations

import os
import re
import urllib.request
from dataclasses import asdict, dataclass
from typing import Any

import anyio

from perf.fleet import get_json
from perf.processes import Program

__all__ = ["ProcessResidue", "residue_of"]

_TASKS = re.compile(r"^switchboard_runtime_tasks ([0-9.]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ProcessResidue:
    active: int
    reserved: int
    files: int
    tasks: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


async def residue_of(pid: int, supervisor: Program, runtime_id: str) -> ProcessResidue:
    """Asks a worker over HTTP and looks at its descriptors; the asking itself counts the same each time."""
    base = next(str(each["http"]) for each in supervisor.ready["workers"] if each["runtime_id"] == runtime_id)
    load = await anyio.to_thread.run_sync(get_json, f"{base}/v1/load")
    metrics = await anyio.to_thread.run_sync(_text, f"{base}/metrics")
    found = _TASKS.search(metrics)
    assert found, "a worker tells its tasks"
    files = len(os.listdir(f"/proc/{pid}/fd"))
    return ProcessResidue(int(load["active"]), int(load["reserved"]), files, int(float(found.group(1))))


def _text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10.0) as answer:
        text: str = answer.read().decode()
        return text
