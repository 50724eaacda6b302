"""A place stays filled, whatever its processes do: they are small ones here, that do one thing."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from balancer.telemetry.logs import make_logger
from runtime.app.changes import Changes
from runtime.app.worker_phase import Bounds, Phase
from runtime.app.worker_place import Place, Program

pytestmark = [pytest.mark.e2e, pytest.mark.anyio]

READY = 'import os, signal, sys; say = lambda: os.write(int(sys.argv[1]), b\'{"event": "ready"}\\n\')\n'
PATIENT = Bounds(start_s=100.0, silence_s=0.0, leave_s=100.0)


@dataclass
class Seen:
    place: Place
    changes: Changes
    text: io.StringIO
    ended: list[int] = field(default_factory=list)

    def lines(self, event: str) -> list[dict[str, Any]]:
        return [line for line in map(json.loads, self.text.getvalue().splitlines()) if line["event"] == event]

    async def until(self, fact: Callable[[], bool]) -> None:
        with anyio.fail_after(60):
            await self.changes.until(fact)


def made(script: str, bounds: Bounds = PATIENT, command: str = sys.executable) -> Seen:
    """`script` runs behind READY."""
    changes, text, ended = Changes(), io.StringIO(), list[int]()
    program = Program(lambda report_fd: [command, "-c", READY + script, str(report_fd)], {})
    place = Place("m-1", program, bounds, lambda: ended.append(place.life), changes, make_logger(text, "debug"))
    return Seen(place, changes, text, ended)


@asynccontextmanager
async def kept(seen: Seen) -> AsyncIterator[Seen]:
    """Keeps the place during the block, and dismisses it."""
    with anyio.fail_after(100):
        async with anyio.create_task_group() as group:
            group.start_soon(seen.place.keep)
            yield seen
            seen.place.dismiss()
    assert seen.place.phase is Phase.DOWN


async def test_it_is_filled_drained_filled_again_and_emptied() -> None:
    async with kept(made("say(); signal.pause()")) as seen:
        await seen.until(lambda: seen.place.is_ready)
        seen.place.drain()
        assert seen.place.phase is Phase.LEAVING
        await seen.until(lambda: seen.place.is_ready)
        assert seen.place.life == 2
    assert seen.ended == [1, 2]
    assert seen.lines("worker restarts") == []  # it was asked to


async def test_what_is_printed_is_not_taken_for_a_report_and_fills_no_pipe() -> None:
    async with kept(made("print('x' * 300_000, flush=True); print('{\"event\": \"ready\"'); say(); signal.pause()")) as seen:
        await seen.until(lambda: seen.place.is_ready)
    assert seen.ended == [1]


async def test_a_first_process_that_is_never_ready_is_the_places_failure() -> None:
    for script, how in (
        ("sys.exit(3)", "ended with status 3"),
        ("sys.exit(0)", "ended with status 0"),
        ("os.kill(os.getpid(), 9)", "ended with status -9"),
    ):
        async with kept(made(script)) as seen:
            await seen.until(lambda: seen.place.failure is not None)
        assert f"worker m-1 {how} before it was ready" in str(seen.place.failure)
    async with kept(made("", command="/no/such/command")) as seen:
        await seen.until(lambda: seen.place.failure is not None)
    assert "could not be started" in str(seen.place.failure)
    assert seen.lines("worker cannot be started")


@pytest.mark.parametrize("status", [0, 3])
async def test_one_that_ends_before_it_is_ready_is_tried_again_later_and_that_is_said(tmp_path: Path, status: int) -> None:
    script = f"""
mark = {str(tmp_path / "mark")!r}
if os.path.exists(mark): sys.exit({status})
say()
while not os.path.exists(mark): pass
"""
    async with kept(made(script)) as seen:
        await seen.until(lambda: seen.place.is_ready)
        (tmp_path / "mark").touch()
        await seen.until(lambda: seen.place.life == 4)
    told = seen.lines("worker restarts")[:3]
    assert [(line["was_ready"], line["how"]) for line in told] == [
        (True, "ended with status 0"),
        *[(False, f"ended with status {status}")] * 2,
    ]
    assert all(line["wait_s"] >= 0.0 for line in told)
    assert sum(line["wait_s"] for line in told) > 0.0


async def test_one_that_is_not_ready_in_time_is_killed() -> None:
    async with kept(made("signal.pause()", Bounds(0.3, 0.0, 100.0))) as seen:
        await seen.until(lambda: seen.place.failure is not None)
    assert "ended with status -9" in str(seen.place.failure)
    assert seen.lines("worker killed")[0]["cause"] == "it was not ready within 0.3 s"


async def test_one_that_falls_silent_is_killed_and_replaced() -> None:
    async with kept(made("say(); signal.pause()", Bounds(100.0, 0.5, 100.0))) as seen:
        await seen.until(lambda: seen.place.life == 2 and seen.place.is_ready)
    assert seen.lines("worker killed")[0]["cause"] == "its event loop said nothing for 0.5 s"
    assert seen.lines("worker restarts")[0]["how"] == "ended with status -9"


async def test_one_that_beats_is_kept_longer_than_its_silence_may_last() -> None:
    beats = "say()\nfor _ in range(80): os.write(int(sys.argv[1]), b'\\n'); signal.sigtimedwait([signal.SIGUSR1], 0.05)"
    async with kept(made(beats, Bounds(100.0, 2.0, 100.0))) as seen:
        await seen.until(lambda: seen.place.life == 2)
    assert seen.lines("worker restarts")[0]["how"] == "ended with status 0"
    assert seen.lines("worker restarts")[0]["served_s"] > 3.0


async def test_one_that_does_not_leave_in_time_is_killed() -> None:
    async with kept(made("signal.signal(15, signal.SIG_IGN); say(); signal.pause()", Bounds(100.0, 0.0, 0.3))) as seen:
        await seen.until(lambda: seen.place.is_ready)
    assert seen.lines("worker killed")[0]["cause"] == "it had not left within 0.3 s"


async def test_a_dismissal_while_a_process_is_just_being_made_is_not_lost() -> None:
    for steps in range(8):
        seen = made("say(); signal.pause()")
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(seen.place.keep)
                for _ in range(steps):
                    await anyio.lowlevel.checkpoint()
                seen.place.dismiss()
        assert seen.place.phase is Phase.DOWN


async def test_a_worker_gets_the_environment_it_is_given_and_a_session_of_its_own(tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = f"open({str(told)!r}, 'w').write(' '.join([str(os.getsid(0) - os.getpid()), *os.environ])); say(); signal.pause()"
    async with kept(made(script)) as seen:
        await seen.until(lambda: seen.place.is_ready)
    distance, *names = told.read_text().split()
    assert distance == "0"
    assert set(names) <= {"LC_CTYPE"}  # Python's own
