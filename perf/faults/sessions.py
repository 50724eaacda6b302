"""`python -m perf.faults sessions --seed S --json`: real connections, ended in every way, and what is left of them: nothing.

A supervisor with two workers on synthetic engines and a balancer that keeps its own books. Callers end in every way; workers are
killed with -9 on the way; a reader reads the shared counters at full speed all the time. After quiescence the residue must be
exactly 0 everywhere, and the reasons must add up to the sessions.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import anyio

from perf.bench.machine import describe_machine
from perf.faults.callers import Callers, Outcome
from perf.faults.plan import Connection, Ending, count_endings, make_plan
from perf.faults.reasons import reasons_by_ending, wrongly_ended
from perf.faults.residue import ProcessResidue, connections_to, residue_of
from perf.fleet import LocalFleet
from perf.polling import until
from perf.processes import Program, ProgramFailed, running
from perf.targets import Target, all_met, as_json
from runtime.app.machine_memory import MachineMemory
from runtime.primitives.rng import SeededRng

__all__ = ["run"]

_WORKERS: Final = 2
_AT_ONCE: Final = 64
_QUIESCENCE_S: Final = 60.0
_SETTLING_S: Final = 10.0
"""How long after quiescence the last sockets may take to close; a leak stays."""
_LOOKS: Final = 5
_PAUSE_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class _Site:
    fleet: LocalFleet
    supervisor: Program
    memory: MachineMemory
    log: Path

    def pids(self) -> dict[str, int]:
        """Runtime id to process id, as the supervisor's log has them last."""
        lines = (json.loads(line) for line in self.log_lines() if line.startswith('{"') and '"worker ready"' in line)
        return {line["runtime_id"]: line["pid"] for line in lines}

    def log_lines(self) -> list[str]:
        """The whole lines that supervisor and workers have written."""
        whole, _, _ = self.log.read_text().rpartition("\n")
        return whole.splitlines()


@asynccontextmanager
async def _site(folder: Path, first_ports: tuple[int, int]) -> AsyncIterator[_Site]:
    ports = ["--public-port", "0", "--operator-port", "0", "--control-port", "0"]
    segment, log = folder / "segment", folder / "supervisor.log"
    async with AsyncExitStack() as stack:
        balancer = await stack.enter_async_context(running("balancer", "balancer", ports, log=folder / "balancer.log"))
        control = str((await balancer.wait_ready())["control"])
        arguments = [
            *("--workers", str(_WORKERS), "--machine-id", "faults", "--engines", "synthetic", "--balancers", control),
            *(
                "--shared-memory",
                str(segment),
                "--hard-limit",
                "2000",
                "--inflow-depth",
                "100000",
                "--inflow-ramp-s",
                "0",
                "--guard-lag-ms",
                "5000",
            ),
            *("--guard-utilisation", "100", "--ping-interval-s", "2", "--first-message-s", "3"),
            *("--http-port", str(first_ports[0]), "--grpc-port", str(first_ports[1])),
        ]
        supervisor = await stack.enter_async_context(running("supervisor", "runtime", arguments, log=log))
        await supervisor.wait_ready()
        fleet = LocalFleet(balancer, [], str(balancer.ready["public"]), str(balancer.ready["operator"]))
        await fleet.wait_for("the workers", lambda seen: seen["totals"]["eligible"] == _WORKERS, 30)
        yield _Site(fleet, supervisor, MachineMemory.attach(segment), log)


async def _kill(site: _Site, runtime_id: str) -> None:
    """Kills a worker and waits until its successor takes calls."""
    before = site.pids()[runtime_id]
    os.kill(before, signal.SIGKILL)
    await until(lambda: site.pids()[runtime_id] != before, 60)
    await site.fleet.wait_for("the successor", lambda seen: seen["totals"]["eligible"] == _WORKERS, 60)


async def _make_all(site: _Site, plan: list[Connection], kills: int) -> Counter[tuple[Ending, Outcome]]:
    outcomes: Counter[tuple[Ending, Outcome]] = Counter()
    over = anyio.Event()
    killed = 0
    ready = site.supervisor.ready["workers"]
    http = [str(each["http"]).removeprefix("http://") for each in ready]
    limiter = anyio.CapacityLimiter(_AT_ONCE)
    async with Callers(http, [str(each["grpc"]) for each in ready], over.wait) as callers, anyio.create_task_group() as group:

        async def one(connection: Connection, *, is_limited: bool) -> None:
            outcomes[connection.ending, await callers.make(connection)] += 1
            if is_limited:
                limiter.release_on_behalf_of(connection)

        for connection in plan:
            # Those that stay hold no place in the queue of those that come and go.
            is_limited = connection.ending not in (Ending.STAY, Ending.HALF_OPEN)
            if is_limited:
                await limiter.acquire_on_behalf_of(connection)
            group.start_soon(lambda connection=connection, is_limited=is_limited: one(connection, is_limited=is_limited))  # type: ignore[misc]  # bound now
            if (connection.number + 1) % max(1, len(plan) // (kills + 1)) == 0 and connection.number + 1 < len(plan):
                victim = str(ready[killed % _WORKERS]["runtime_id"])
                killed += 1
                print(f"faults: {connection.number + 1} of {len(plan)} connections; kill -9 of {victim}", file=sys.stderr)
                await _kill(site, victim)
        over.set()
    # A gRPC call whose first task was cancelled is in a reference cycle (task, CancelledError, traceback, call), which keeps its
    # closed channel's connection until the collector comes by. It does not come while this process only waits.
    gc.collect()
    return outcomes


async def _warm_up(site: _Site) -> dict[str, ProcessResidue]:
    """A few calls on both wires to each worker, so that what is opened once for good is open before the count begins."""
    plan = make_plan(200, _WORKERS, SeededRng(1))
    await _make_all(site, [each for each in plan if each.ending is Ending.CLOSE], kills=0)
    await site.fleet.wait_for("quiet books", lambda seen: seen["books"]["active"] == 0, _QUIESCENCE_S)
    await _until_hung_up(site)
    looks = []
    for _ in range(_LOOKS):
        await anyio.sleep(_PAUSE_S)
        looks.append(await _residues(site))
    # The least of several looks: a socket that is about to close would leave room for a leak.
    return {
        name: replace(look, files=min(each[name].files for each in looks), tasks=min(each[name].tasks for each in looks))
        for name, look in looks[-1].items()
    }


async def _residues(site: _Site) -> dict[str, ProcessResidue]:
    return {name: await residue_of(pid, site.supervisor, name) for name, pid in site.pids().items()}


def _own_connections(site: _Site) -> int:
    return connections_to(
        {int(str(each[door]).rpartition(":")[2]) for each in site.supervisor.ready["workers"] for door in ("http", "grpc")}
    )


async def _until_hung_up(site: _Site) -> None:
    """Where this process cannot let go of a connection, the targets say so."""
    with contextlib.suppress(TimeoutError):
        await until(lambda: _own_connections(site) == 0, _SETTLING_S)


async def _settled(site: _Site, before: dict[str, ProcessResidue]) -> dict[str, ProcessResidue]:
    """What the workers hold once they hold no more than before, or what they still hold when the last sockets had their time."""
    await _until_hung_up(site)
    deadline = anyio.current_time() + _SETTLING_S
    while True:
        after = await _residues(site)
        is_back = all(each.files <= before[name].files and each.tasks <= before[name].tasks for name, each in after.items())
        if is_back or anyio.current_time() >= deadline:
            return after
        await anyio.sleep(_PAUSE_S)


async def run(
    connections: int, kills: int, seed: int, ports: tuple[int, int], quiescence_s: float = _QUIESCENCE_S
) -> dict[str, Any]:
    """The whole run as one JSON-ready object."""
    plan = make_plan(connections, _WORKERS, SeededRng(seed))
    with tempfile.TemporaryDirectory(prefix="switchboard-faults-") as name:
        folder = Path(name)
        async with _site(folder, ports) as site:
            before = await _warm_up(site)
            warm_lines = len(site.log_lines())
            warm = site.memory.totals()
            async with running("reader", "perf.faults.reader", [str(folder / "segment")], log=folder / "reader.log") as reader:
                await reader.wait_ready()
                outcomes = await _make_all(site, plan, kills)
                read = await reader.end_input()
            # Where it does not become quiet the targets say what is left.
            with contextlib.suppress(ProgramFailed, TimeoutError):
                await site.fleet.wait_for("quiet books", _is_quiet, quiescence_s)
                await until(lambda: site.memory.totals().active == 0, quiescence_s)
            fleet = await site.fleet.document("/v1/fleet")
            after = await _settled(site, before)
            callers_left = _own_connections(site)
            reasons = reasons_by_ending(site.log_lines()[warm_lines:], plan)
            totals, named = site.memory.totals(), len(site.memory.live())
    started = totals.started - warm.started
    by_reason = {reason: count - warm.ended.get(reason, 0) for reason, count in totals.ended.items()}
    ended = sum(by_reason.values())
    acknowledged = sum(count for (_, outcome), count in outcomes.items() if outcome == "started")
    books = fleet["books"]
    targets = [
        Target("connections", float(sum(outcomes.values())), "connections", ">=", float(connections)),
        Target("active_at_the_end", float(totals.active), "sessions", "==", 0.0),
        Target("identity_slots_left", float(named), "slots", "==", 0.0),
        Target("started_less_ended_and_lost", float(started - ended - totals.lost), "sessions", "==", 0.0),
        Target(
            "overdue", float(sum(count for (_, outcome), count in outcomes.items() if outcome == "overdue")), "callers", "==", 0.0
        ),
        Target("ended_for_another_reason", float(wrongly_ended(reasons)), "sessions", "==", 0.0),
        Target("acknowledged_beyond_started", float(max(0, acknowledged - started)), "sessions", "==", 0.0),
        Target("ledger_entries_left", float(sum(each.active + each.reserved for each in after.values())), "entries", "==", 0.0),
        Target("driver_connections_left", float(callers_left), "connections", "==", 0.0),
        Target("files_left", float(max(after[name].files - before[name].files for name in after)), "descriptors", "<=", 0.0),
        Target("tasks_left", float(max(after[name].tasks - before[name].tasks for name in after)), "tasks", "<=", 0.0),
        Target("balancer_books_active", float(books["active"]), "sessions", "==", 0.0),
        Target("balancer_books_balanced", float(books["balanced"]), "yes", "==", 1.0),
        Target("snapshots_read", float(read["reads"]), "reads", ">=", 1_000_000.0),
        Target("impossible_snapshots", float(len(read["impossible"])), "snapshots", "==", 0.0),
    ]
    return {
        "ok": all_met(targets),
        "targets": as_json(targets),
        "seed": seed,
        "plan": count_endings(plan),
        "outcomes": {f"{ending}.{outcome}": count for (ending, outcome), count in sorted(outcomes.items())},
        "reasons": reasons,
        "kills": kills,
        "totals": {"started": started, "ended_by_reason": by_reason, "lost": totals.lost},
        "reader": read,
        "workers": {name: {"before": before[name].as_json(), "after": after[name].as_json()} for name in after},
        "balancer_books": books,
        "machine": describe_machine(),
    }


def _is_quiet(fleet: Any) -> bool:
    totals = fleet["totals"]
    return bool(totals["active"] == totals["reserved"] == fleet["books"]["active"] == 0 and fleet["books"]["balanced"])
