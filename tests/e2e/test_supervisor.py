"""A supervisor and its workers as real processes: a killed worker's legs are lost by name, replacement drops nothing."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

from clients.realtime import RATE_HZ, Call, connect
from perf.fleet import LocalFleet
from perf.processes import Program, ProgramFailed, running
from runtime.app.machine_memory import MachineMemory

pytestmark = [pytest.mark.e2e, pytest.mark.anyio, pytest.mark.timeout(180)]


@asynccontextmanager
async def _supervised(folder: Path, *arguments: str) -> AsyncIterator[tuple[LocalFleet, Program, Path]]:
    """A balancer and two supervised workers on synthetic engines, and the log that they share."""
    # A worker that has just come back holds no session: the cold allowance is all the room it has until its next report.
    ports = ["--public-port", "0", "--operator-port", "0", "--control-port", "0", "--cold-allowance", "16"]
    log = folder / "supervisor.log"
    async with AsyncExitStack() as stack:
        balancer = await stack.enter_async_context(running("balancer", "balancer", ports, log=folder / "balancer.log"))
        control = str((await balancer.wait_ready())["control"])
        settings = [
            *("--workers", "2", "--engines", "synthetic", "--machine-id", "m", "--balancers", control),
            *("--shared-memory", str(folder / "segment")),
            *arguments,
        ]
        supervisor = await stack.enter_async_context(running("supervisor", "runtime", settings, log=log))
        await supervisor.wait_ready()
        fleet = LocalFleet(balancer, [], str(balancer.ready["public"]), str(balancer.ready["operator"]))
        await fleet.wait_for("both workers", lambda seen: seen["totals"]["eligible"] == 2, 30)
        yield fleet, supervisor, log


async def _start(lines: AsyncExitStack, fleet: LocalFleet, session_id: str) -> Call:
    call = await lines.enter_async_context(connect(fleet.call_url, session_id=session_id))
    await call.send({"type": "session.update", "session": {"type": "realtime"}})
    await _until(call, "session.updated")
    return call


async def _until(call: Call, kind: str) -> None:
    async for event in call.events():
        if event["type"] == kind:
            return
    raise AssertionError(f"the call ended before {kind}")


def _lines(log: Path, event: str) -> list[dict[str, Any]]:
    whole, _, _ = log.read_text().rpartition("\n")  # the last line may be half written
    lines = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


def _pid(log: Path, runtime_id: str) -> int:
    return int(next(line["pid"] for line in _lines(log, "worker ready")[::-1] if line["runtime_id"] == runtime_id))


@pytest.mark.usefixtures("from_wheel")
async def test_a_killed_workers_legs_are_lost_by_name_and_it_comes_back(tmp_path: Path) -> None:  # requirement S3
    async with _supervised(tmp_path) as (fleet, _, log), AsyncExitStack() as lines:
        calls = [await _start(lines, fleet, f"call-{number}") for number in range(4)]
        memory = MachineMemory.attach(tmp_path / "segment")
        assert memory.totals().active == 4
        victim = calls[0].runtime_id
        theirs = sorted(f"{call.session_id}/1" for call in calls if call.runtime_id == victim)
        started = anyio.current_time()
        os.kill(_pid(log, victim), signal.SIGKILL)
        with anyio.fail_after(20):
            while memory.totals().lost < len(theirs):
                await anyio.lowlevel.checkpoint()
        assert anyio.current_time() - started < 1.0
        await fleet.wait_for("the worker is back", lambda seen: seen["totals"]["eligible"] == 2, 30)
        (lost,) = _lines(log, "legs lost")
        assert sorted(lost["legs"]) == theirs
        with anyio.fail_after(20):
            while memory.totals().active < 4:  # their sessions go on at the other worker, or at the new one
                await anyio.lowlevel.checkpoint()
        totals = memory.totals()
        assert (totals.started, totals.lost, totals.moved_in) == (4, len(theirs), len(theirs))
        await calls[0].send({"type": "input_audio_buffer.clear"})
        await _until(calls[0], "input_audio_buffer.cleared")
        assert (await _start(lines, fleet, "fresh")).session_id == "fresh"


@pytest.mark.usefixtures("from_wheel")
async def test_replacement_one_by_one_refuses_and_drops_nothing(tmp_path: Path) -> None:
    async with _supervised(tmp_path) as (fleet, supervisor, log), AsyncExitStack() as group:
        before = {_pid(log, "m-1"), _pid(log, "m-2")}
        counts = {"made": 0, "answered": 0}
        stop = anyio.Event()
        half_a_second = np.zeros(RATE_HZ // 2, np.int16)

        async def call_again_and_again(number: int) -> None:
            while not stop.is_set():
                async with AsyncExitStack() as lines:
                    counts["made"] += 1
                    call = await _start(lines, fleet, f"call-{number}-{counts['made']}")
                    await call.speak(half_a_second)
                    await call.send({"type": "input_audio_buffer.clear"})
                    async for event in call.events():
                        if event["type"] == "input_audio_buffer.cleared":
                            counts["answered"] += 1
                            break

        tasks = await group.enter_async_context(anyio.create_task_group())
        for number in range(4):
            tasks.start_soon(call_again_and_again, number)
        os.kill(supervisor.pid, signal.SIGHUP)
        with anyio.fail_after(60):
            while not _lines(log, "supervisor has replaced its workers"):
                await fleet.document("/v1/fleet")
        stop.set()
        await group.aclose()
        assert before.isdisjoint({_pid(log, "m-1"), _pid(log, "m-2")})
        seen = await fleet.wait_for("quiet books", lambda seen: seen["books"]["active"] == 0, 30)
        assert counts["made"] == counts["answered"] > 8
        assert seen["books"]["refused"] == {}
        assert seen["books"]["runtime_lost"] == 0
        assert seen["books"]["ended"] == {"closed_by_caller": counts["made"]}


@pytest.mark.usefixtures("from_wheel")
async def test_no_worker_outlives_its_supervisor(tmp_path: Path) -> None:
    async with _supervised(tmp_path) as (fleet, supervisor, log):
        workers = [_pid(log, "m-1"), _pid(log, "m-2")]
        supervisor.kill()
        await supervisor.wait()
        await fleet.wait_for("an empty fleet", lambda seen: seen["totals"]["eligible"] == 0, 30)
        with anyio.fail_after(30):
            while any(_is_alive(pid) for pid in workers):
                await fleet.document("/v1/fleet")


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_first_start_that_fails_is_said_and_ends(tmp_path: Path) -> None:
    arguments = ["--workers", "2", "--agent", "no.such:Agent", "--machine-id", "m", "--shared-memory", str(tmp_path / "segment")]
    async with running("supervisor", "runtime", arguments, log=tmp_path / "log") as supervisor:
        with pytest.raises(ProgramFailed, match="ended with status 2 before it was ready"):
            await supervisor.wait_ready()
        assert await supervisor.wait() == 2
    assert not (tmp_path / "segment").exists()
