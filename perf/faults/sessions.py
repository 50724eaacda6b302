"""`python -m perf.faults sessions --seed S --json`: real connections, ended in every way, and what is left of them: nothing.

Callers come in by every door and end in every way; workers are killed with -9 on the way, and all are replaced at the end; a
reader reads the shared counters at full speed all the time. After quiescence the residue must be exactly 0 everywhere,
and each session, by its name, must have ended once, for the reason that follows from what its caller did.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import anyio

from perf.bench.machine import describe_machine
from perf.faults.account import draw_up, read_lines
from perf.faults.callers import Callers
from perf.faults.journal import Journal, Visit
from perf.faults.plan import Connection, Ending, count_endings, make_plan
from perf.faults.residue import ProcessResidue
from perf.faults.site import STAY_S, WORKERS, Site, site
from perf.faults.verdict import Findings, since, targets_of
from perf.polling import until
from perf.processes import ProgramFailed, running
from perf.targets import all_met, as_json
from runtime.primitives.rng import SeededRng

__all__ = ["run"]

_AT_ONCE: Final = 64
_QUIESCENCE_S: Final = 60.0
_SETTLING_S: Final = 10.0
"""How long after quiescence the last sockets may take to close; a leak stays."""
_HOLD_S: Final = 15.0
_LOOKS: Final = 5
_PAUSE_S: Final = 0.2
_BRIEF: Final = frozenset({Ending.CLOSE, Ending.RESET, Ending.HALF_CLOSE, Ending.BREACH, Ending.SILENT, Ending.GARBAGE})
"""Those that wait for something hold no place in the queue of those that come and go."""
_COUNTS: Final = ("started", "recovered", "moved_in", "moved_out", "runtime_lost", "unheard")


async def _make_all(at: Site, plan: list[Connection], journal: Journal, kills: int) -> None:
    """All connections of the plan; `kills` workers are killed at even distances, one after the other."""
    done = 0
    limiter = anyio.CapacityLimiter(_AT_ONCE)
    names = at.doors.names
    async with Callers(at.doors, journal, STAY_S) as callers, anyio.create_task_group() as group:

        async def one(visit: Visit) -> None:
            await callers.make(visit)
            if visit.connection.ending in _BRIEF:
                limiter.release_on_behalf_of(visit.connection)

        for number, connection in enumerate(plan, start=1):
            if connection.ending in _BRIEF:
                await limiter.acquire_on_behalf_of(connection)
            group.start_soon(one, journal.open(connection))
            if done < kills and number >= (done + 1) * len(plan) // (kills + 1):
                victim = names[done % WORKERS]
                done += 1
                print(f"faults: {number} of {len(plan)} connections; kill -9 of {victim}", file=sys.stderr)
                await _kill(at, victim, journal)
    # A gRPC call whose first task was cancelled is in a reference cycle (task, CancelledError, traceback, call), which keeps its
    # closed channel's connection until the collector comes by. It does not come while this process only waits.
    gc.collect()


async def _kill(at: Site, runtime_id: str, journal: Journal) -> None:
    """Kills a worker that holds a session, and waits until its successor takes calls."""
    with contextlib.suppress(TimeoutError):  # then the targets say that nothing was cut
        await until(lambda: journal.held(Ending.STAY, runtime_id) > 0, _HOLD_S)
    before = at.pids()[runtime_id]
    journal.killed(runtime_id)
    os.kill(before, signal.SIGKILL)
    await at.until_replaced({runtime_id: before})


async def _drain(at: Site, plan: list[Connection], journal: Journal) -> None:
    """Holds these calls, and has all workers replaced under them."""
    before = at.pids()
    async with Callers(at.doors, journal, STAY_S) as callers, anyio.create_task_group() as group:
        for connection in plan:
            group.start_soon(callers.make, journal.open(connection))
        with contextlib.suppress(TimeoutError):
            await until(lambda: journal.held(Ending.DRAIN) == len(plan), _HOLD_S)
        print(f"faults: {journal.held(Ending.DRAIN)} calls are held; all workers are replaced", file=sys.stderr)
        os.kill(at.supervisor.pid, signal.SIGHUP)
        await at.until_replaced(before)
    gc.collect()


async def _warm_up(at: Site) -> dict[str, ProcessResidue]:
    """A few calls by every door to each worker, so that what is opened once for good is open before the count begins."""
    plan = [each for each in make_plan(400, WORKERS, SeededRng(1), "w") if each.ending in (Ending.CLOSE, Ending.FAULT)]
    await _make_all(at, plan, Journal(anyio.current_time), kills=0)
    await _until_quiet(at, _QUIESCENCE_S)
    looks = []
    for _ in range(_LOOKS):
        await anyio.sleep(_PAUSE_S)
        looks.append(await at.residues())
    # The least of several looks: a socket that is about to close would leave room for a leak.
    return {
        name: replace(look, files=min(each[name].files for each in looks), tasks=min(each[name].tasks for each in looks))
        for name, look in looks[-1].items()
    }


async def _until_quiet(at: Site, within_s: float) -> None:
    """Where it does not become quiet, or this process cannot let go of a connection, the targets say what is left."""
    with contextlib.suppress(ProgramFailed, TimeoutError):
        await at.fleet.wait_for("quiet books", _is_quiet, within_s)
        await until(lambda: at.memory.totals().active == 0, within_s)
    with contextlib.suppress(TimeoutError):
        await until(lambda: at.own_connections() == 0, _SETTLING_S)


def _is_quiet(fleet: Any) -> bool:
    totals = fleet["totals"]
    return bool(totals["active"] == totals["reserved"] == fleet["books"]["active"] == 0 and fleet["books"]["balanced"])


async def _settled(at: Site, before: Mapping[str, ProcessResidue], files: int) -> tuple[dict[str, ProcessResidue], int]:
    """What the workers and the balancer hold once it is no more than before, or still after the last sockets had their time."""
    deadline = anyio.current_time() + _SETTLING_S
    while True:
        after, files_now = await at.residues(), at.balancer_files()
        is_back = all(each.files <= before[name].files and each.tasks <= before[name].tasks for name, each in after.items())
        if (is_back and files_now <= files) or anyio.current_time() >= deadline:
            return after, files_now
        await anyio.sleep(_PAUSE_S)


async def _watching(at: Site, seen: list[int], work: Callable[[], Awaitable[None]]) -> None:
    """Does the work, and looks meanwhile how many places are held for callers on their way."""

    async def watch() -> None:
        while True:
            await anyio.sleep(1.0)
            seen.append(int((await at.fleet.document("/v1/fleet"))["totals"]["reserved"]))

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        await work()
        group.cancel_scope.cancel()


async def run(
    connections: int, kills: int, seed: int, ports: tuple[int, int], quiescence_s: float = _QUIESCENCE_S
) -> dict[str, Any]:
    """The whole run as one JSON-ready object."""
    plan = make_plan(connections, WORKERS, SeededRng(seed))
    journal = Journal(anyio.current_time)
    reserved: list[int] = [0]
    with tempfile.TemporaryDirectory(prefix="switchboard-faults-") as name:
        folder = Path(name)
        async with site(folder, ports) as at:
            before = await _warm_up(at)
            files, warm = at.balancer_files(), at.memory.totals()
            warm_books = (await at.fleet.document("/v1/fleet"))["books"]
            async with running("reader", "perf.faults.reader", [str(at.segment)], log=folder / "reader.log") as reader:
                await reader.wait_ready()
                come = [each for each in plan if each.ending is not Ending.DRAIN]
                await _watching(at, reserved, lambda: _make_all(at, come, journal, kills))
                await _until_quiet(at, quiescence_s)
                after, files_after = await _settled(at, before, files)
                await _drain(at, [each for each in plan if each.ending is Ending.DRAIN], journal)
                await _until_quiet(at, quiescence_s)
                read = await reader.end_input()
            fleet = await at.fleet.document("/v1/fleet")
            said = read_lines(at.log_lines(), "f")
            found = Findings(
                connections=connections,
                kills=kills,
                account=draw_up(plan, journal, said),
                journal=journal,
                said=said,
                totals=since(at.memory.totals(), warm),
                books={**fleet["books"], **{name: fleet["books"][name] - warm_books[name] for name in _COUNTS}},
                fleet=fleet,
                slots_left=len(at.memory.live()),
                before=before,
                after=after,
                left=await at.residues(),
                files_of_balancer=(files, files_after),
                callers_left=at.own_connections(),
                read=read,
                reserved_most=max(reserved),
            )
    return _as_json(found, plan, seed)


def _as_json(found: Findings, plan: list[Connection], seed: int) -> dict[str, Any]:
    targets = targets_of(found)
    endings = {each.session_id: each.ending for each in plan}
    outcomes = Counter(f"{endings[name]}.{outcome}" for name, outcome in found.journal.outcomes.items())
    residues = {"before": found.before, "after": found.after, "after_the_drain": found.left}
    return {
        "ok": all_met(targets),
        "targets": as_json(targets),
        "seed": seed,
        "kills": found.kills,
        "plan": count_endings(plan),
        "outcomes": dict(sorted(outcomes.items())),
        "as_planned": found.account.ended_by_way,
        "reasons": found.account.reasons,
        "ways_missing": found.account.ways_missing,
        "examples": found.account.examples,
        "totals": {"started": found.totals.started, "ended_by_reason": dict(found.totals.ended), "lost": found.totals.lost},
        "kills_cut": {"surely": len(found.journal.must), "maybe": len(found.journal.may), "lost_by_name": len(found.said.lost)},
        "reader": dict(found.read),
        "workers": {when: {name: asdict(each) for name, each in of.items()} for when, of in residues.items()},
        "balancer_books": dict(found.books),
        "machine": describe_machine(),
    }
