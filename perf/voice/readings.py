"""Counters of the processes at one moment, and what they rest at without calls."""

from __future__ import annotations

import os
import re
import time
import urllib.request
from dataclasses import dataclass
from typing import Final

import anyio

from perf.bench.machine import process_cpu_s, process_rss_bytes
from perf.fleet import LocalFleet, get_json

__all__ = ["Idle", "Reading", "counter"]

_IDLE_S: Final = 4.0


@dataclass(frozen=True, slots=True)
class Idle:
    """The runtime without calls, before the first wave."""

    cores: float
    rss_bytes: int

    @classmethod
    async def measure(cls, pid: int) -> Idle:
        began_s, used_s = time.perf_counter(), process_cpu_s(pid)
        await anyio.sleep(_IDLE_S)
        return cls((process_cpu_s(pid) - used_s) / (time.perf_counter() - began_s), process_rss_bytes(pid))


@dataclass(frozen=True, slots=True)
class Reading:
    at_s: float
    runtime_cpu_s: float
    balancer_cpu_s: float
    caller_cpu_s: float
    missed_deadlines: int
    stale_frames_sent: int
    commits_withdrawn: int

    @classmethod
    async def take(cls, fleet: LocalFleet) -> Reading:
        http = str(fleet.runtimes[0].ready["http"])
        load = await anyio.to_thread.run_sync(get_json, f"{http}/v1/load")
        exposition = await anyio.to_thread.run_sync(_get_text, f"{http}/metrics")
        return cls(
            time.perf_counter(),
            process_cpu_s(fleet.runtimes[0].pid),
            process_cpu_s(fleet.balancer.pid),
            process_cpu_s(os.getpid()),
            int(load["missed_audio_deadlines"]),
            counter(exposition, "switchboard_runtime_stale_frames_sent_total"),
            counter(exposition, "switchboard_runtime_commits_withdrawn_total"),
        )


def counter(exposition: str, name: str) -> int:
    """The sum of a counter over its labels, out of Prometheus text; 0 where it is not there.

    >>> counter('a_total{x="1"} 2.0\\na_total{x="2"} 3.0\\nab_total 9.0', "a_total")
    5
    """
    return int(sum(float(value) for value in re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", exposition, re.MULTILINE)))


def _get_text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10.0) as answer:
        return str(answer.read().decode())
