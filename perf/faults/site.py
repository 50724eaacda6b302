"""What the lab breaks: a supervisor with two workers on synthetic engines, and a balancer that keeps its own books."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from perf.faults.callers import Doors
from perf.faults.residue import ProcessResidue, connections_to, residue_of
from perf.fleet import LocalFleet
from perf.polling import until
from perf.processes import Program, running
from runtime.app.machine_memory import MachineMemory

__all__ = ["STAY_S", "WORKERS", "Site", "site"]

WORKERS: Final = 2
_SETTINGS: Final[Mapping[str, object]] = {
    "--engines": "synthetic",
    "--agent": "perf.faults.agent:LabAgent",
    "--hard-limit": 2000,
    "--inflow-depth": 100_000,
    "--inflow-ramp-s": 0,
    # The machine is full of callers: their load must refuse nobody, so that every refusal is a fault.
    "--guard-lag-ms": 60_000,
    "--guard-utilisation": 100,
    "--ping-interval-s": 2,
    "--first-message-s": 3,
    "--slow-caller-s": 2,
    "--idle-s": 9,
    "--maximum-s": 18,
    "--drain-timeout-s": 2,
}
"""Each limit so short that a run reaches it, and so far from the others that none comes before another: a half-open peer is found
after 4 s, a slow one after 2 s, a drain of both workers takes less than the longest call."""
STAY_S: Final = 10.0
_BALANCER: Final[Mapping[str, object]] = {
    "--public-port": 0,
    "--operator-port": 0,
    "--control-port": 0,
    "--policy": "random",
    "--reserve-timeout-ms": 5000,
    "--report-max-age-ms": 30_000,
    "--suspect-after-ms": 9000,
    "--probe-after-ms": 20_000,
}
"""Patient for the same reason."""


@dataclass(frozen=True, slots=True)
class Site:
    fleet: LocalFleet
    supervisor: Program
    memory: MachineMemory
    segment: Path
    log: Path

    @property
    def doors(self) -> Doors:
        ready = self.supervisor.ready["workers"]
        return Doors(
            [str(each["runtime_id"]) for each in ready],
            [str(each["http"]).removeprefix("http://") for each in ready],
            [str(each["grpc"]) for each in ready],
            self.fleet.public.removeprefix("http://"),
        )

    def pids(self) -> dict[str, int]:
        """Runtime id to process id, as the supervisor's log has them last."""
        lines = (json.loads(line) for line in self.log_lines() if line.startswith('{"') and '"worker ready"' in line)
        return {line["runtime_id"]: line["pid"] for line in lines}

    def log_lines(self) -> list[str]:
        """The whole lines that supervisor and workers have written."""
        whole, _, _ = self.log.read_text(errors="replace").rpartition("\n")
        return whole.splitlines()

    async def residues(self) -> dict[str, ProcessResidue]:
        return {name: await residue_of(pid, self.supervisor, name) for name, pid in self.pids().items()}

    def balancer_files(self) -> int:
        return len(os.listdir(f"/proc/{self.fleet.balancer.pid}/fd"))

    def own_connections(self) -> int:
        """Of this process, to the workers and to the balancer's public port."""
        addresses = [*self.doors.http, *self.doors.grpc, self.doors.public]
        return connections_to({int(address.rpartition(":")[2]) for address in addresses})

    async def until_replaced(self, before: Mapping[str, int]) -> None:
        """Waits until none of these processes serves and all successors take calls."""
        await until(lambda: all(self.pids()[name] != pid for name, pid in before.items()), 90)
        await self.fleet.wait_for("the successors", _all_eligible, 60)


def _all_eligible(fleet: Any) -> bool:
    return bool(fleet["totals"]["eligible"] == WORKERS)


@asynccontextmanager
async def site(folder: Path, first_ports: tuple[int, int]) -> AsyncIterator[Site]:
    segment, log = folder / "segment", folder / "supervisor.log"
    async with AsyncExitStack() as stack:
        balancer = await stack.enter_async_context(
            running("balancer", "balancer", _arguments(_BALANCER), log=folder / "balancer.log")
        )
        control = str((await balancer.wait_ready())["control"])
        own = {
            "--workers": WORKERS,
            "--machine-id": "faults",
            "--balancers": control,
            "--shared-memory": segment,
            "--http-port": first_ports[0],
            "--grpc-port": first_ports[1],
        }
        supervisor = await stack.enter_async_context(running("supervisor", "runtime", _arguments({**_SETTINGS, **own}), log=log))
        await supervisor.wait_ready()
        fleet = LocalFleet(balancer, [], str(balancer.ready["public"]), str(balancer.ready["operator"]))
        await fleet.wait_for("the workers", _all_eligible, 30)
        yield Site(fleet, supervisor, MachineMemory.attach(segment), segment, log)


def _arguments(settings: Mapping[str, object]) -> list[str]:
    return [str(part) for pair in settings.items() for part in pair]
