"""The supervisor's decisions, over small processes that are ready at once and leave when asked."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from balancer.telemetry.logs import make_logger
from runtime.app.changes import Changes
from runtime.app.supervisor import Supervisor
from runtime.app.worker_phase import Bounds, Phase
from runtime.app.worker_place import Place, Program, WorkerFailed

pytestmark = [pytest.mark.e2e, pytest.mark.anyio]

_SERVES = 'import os, signal, sys; os.write(int(sys.argv[1]), b\'{"event": "ready"}\\n\'); signal.pause()'
_NEVER_READY = "import signal; signal.pause()"


@dataclass
class _Site:
    supervisor: Supervisor
    places: list[Place]
    changes: Changes
    text: io.StringIO
    announced: list[int] = field(default_factory=list)
    outcome: list[WorkerFailed | None] = field(default_factory=list)

    def events(self) -> list[str]:
        return [json.loads(line)["event"] for line in self.text.getvalue().splitlines()]


@asynccontextmanager
async def _running(*scripts: str) -> AsyncIterator[_Site]:
    changes, text = Changes(), io.StringIO()
    log = make_logger(text, "debug")

    def place(number: int, script: str) -> Place:
        program = Program(lambda report_fd: [sys.executable, "-c", script, str(report_fd)], {})
        return Place(f"m-{number}", program, Bounds(100.0, 0.0, 100.0), lambda: None, changes, log)

    places = [place(number, script) for number, script in enumerate(scripts, 1)]
    site = _Site(Supervisor(places, changes, log), places, changes, text)

    def announce() -> None:
        site.announced.append(1)
        changes.tell()

    async def run() -> None:
        site.outcome.append(await site.supervisor.run(announce))

    with anyio.fail_after(100):
        async with anyio.create_task_group() as group:
            group.start_soon(site.supervisor.replace_when_asked)
            async with anyio.create_task_group() as running:
                running.start_soon(run)
                yield site
            group.cancel_scope.cancel()
    assert all(each.phase is Phase.DOWN for each in places)


async def test_leaving_is_heard_while_workers_start() -> None:
    async with _running(_SERVES, _NEVER_READY) as site:
        await site.changes.until(lambda: site.places[0].is_ready and site.places[1].phase is Phase.STARTING)
        site.supervisor.leave("SIGTERM")
        site.supervisor.leave("SIGTERM")
    assert site.outcome == [None]
    assert site.announced == []
    assert site.events().count("supervisor drains") == 1


async def test_leaving_is_heard_before_anything_has_started() -> None:
    async with _running(_SERVES, _SERVES) as site:
        site.supervisor.leave("SIGTERM")
    assert site.outcome == [None]


async def test_a_worker_that_dies_before_all_are_ready_delays_the_announcement_only(tmp_path: Path) -> None:
    waits = f"import os\nwhile not os.path.exists({str(tmp_path / 'go')!r}): pass\n"
    async with _running(_SERVES, waits + _SERVES) as site:
        await site.changes.until(lambda: site.places[0].is_ready)
        process = site.places[0]._process
        assert process is not None
        process.kill()
        await site.changes.until(lambda: site.places[0].life == 2 and site.places[0].is_ready)
        assert site.announced == []
        (tmp_path / "go").touch()
        await site.changes.until(lambda: bool(site.announced))
        site.supervisor.leave("SIGTERM")


async def test_a_request_during_a_replacement_makes_one_more_and_one_worker_is_out_at_a_time() -> None:
    async with _running(_SERVES, _SERVES, _SERVES) as site:
        await site.changes.until(lambda: bool(site.announced))
        most_out = 0

        async def watch() -> None:
            nonlocal most_out
            while True:
                most_out = max(most_out, sum(not place.is_ready for place in site.places))
                await site.changes.next()

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            site.supervisor.replace()
            await site.changes.until(lambda: not site.places[1].is_ready)
            for _ in range(3):
                site.supervisor.replace()
            await site.changes.until(lambda: all(place.life == 3 and place.is_ready for place in site.places))
            group.cancel_scope.cancel()
        site.supervisor.leave("SIGTERM")
    assert most_out == 1
    assert site.events().count("supervisor replaces its workers") == 2


async def test_a_worker_that_is_never_ready_ends_all_and_is_named() -> None:
    async with _running(_SERVES, "import sys; sys.exit(3)") as site:
        pass
    assert "worker m-2 ended with status 3 before it was ready" in str(site.outcome[0])
    assert site.announced == []
