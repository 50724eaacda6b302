"""What is done to a runtime in the middle of its calls."""

from __future__ import annotations

import os
import signal
import urllib.request
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import anyio

from perf.continuity.stage import Stage
from perf.fleet import LocalFleet
from perf.processes import Program

__all__ = ["Mode", "do_harm"]

_SLEEPS_S: Final = 6.0
"""How long a stopped runtime, or one that is cut off, stays so: well beyond what it takes to go on without it."""
_EMPTY_WITHIN_S: Final = 60.0


class Mode(StrEnum):
    MIGRATE = "migrate"
    """Each call is moved, the runtime stays."""
    DRAIN = "drain"
    """SIGTERM."""
    KILL = "kill"
    """SIGKILL."""
    STOP = "stop"
    """SIGSTOP, and SIGCONT later: it wakes to calls that are no longer its own."""
    PARTITION = "partition"
    """Its network falls silent, and comes back later."""
    DEPLOY = "deploy"
    """Every runtime is replaced by a new one, one after another, each with SIGTERM."""
    CONTROL = "control"
    """The control gets SIGKILL, and a new one takes its place; relays of their own hold the calls."""
    BLACKOUT = "blackout"
    """The same, and while no control is there the runtime gets SIGKILL too."""


async def do_harm(mode: Mode, whole: Stage, sessions: Sequence[str]) -> None:
    """Returns when it is done, and undone where it is undone; for a drain, when the process has left."""
    victim, network = whole.victim, whole.network
    match mode:
        case Mode.MIGRATE:
            async with anyio.create_task_group() as group:
                for session_id in sessions:
                    group.start_soon(_move, whole.fleet, session_id)
        case Mode.DRAIN:
            await _drain(victim)
        case Mode.DEPLOY:
            for old in list(whole.fleet.runtimes):
                await whole.add_runtime()
                await _drain(old)
        case Mode.KILL:
            victim.kill()
        case Mode.CONTROL | Mode.BLACKOUT:
            whole.fleet.balancer.kill()
            await whole.fleet.balancer.wait()
            if mode is Mode.BLACKOUT:
                victim.kill()
            await whole.restart_control()
        case Mode.STOP:
            os.kill(victim.pid, signal.SIGSTOP)
            await anyio.sleep(_SLEEPS_S)
            os.kill(victim.pid, signal.SIGCONT)
        case Mode.PARTITION:
            assert network is not None, "made for this mode"
            await network.cut()
            await anyio.sleep(_SLEEPS_S)
            await network.mend()


async def _drain(runtime: Program) -> None:
    runtime.terminate()
    with anyio.fail_after(_EMPTY_WITHIN_S):
        await runtime.wait()


async def _move(fleet: LocalFleet, session_id: str) -> None:
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{fleet.operator}/v1/calls/{session_id}/move", b"", headers, method="POST")
    await anyio.to_thread.run_sync(lambda: urllib.request.urlopen(request, timeout=20.0).read())
