"""The journal on disk: bounded, each file complete in itself, never in the way of the balancer."""

from __future__ import annotations

import contextlib
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from balancer.app.settings import BalancerSettings
from balancer.app.wiring import wire
from balancer.routing.checkpoint import capture
from balancer.routing.journal import End
from balancer.telemetry.journal_file import JournalFile
from balancer.telemetry.logs import make_logger
from perf.sim.replay import replay
from runtime.primitives.errors import SettingError
from tests.balancer.support.journals import RecordedLife
from tests.balancer.support.running import until

pytestmark = pytest.mark.anyio
MOST = 65_536


@contextlib.contextmanager
def recorded(path: Path, most_waiting: int = 100_000) -> Iterator[tuple[RecordedLife, JournalFile, io.StringIO]]:
    life, log = RecordedLife(), io.StringIO()
    file = JournalFile(path, MOST, life.header, make_logger(log, "info"), most_waiting)
    life.view._note = life.router._note = life.view.affinity._note = file.note  # type: ignore[attr-defined]
    file.capture = lambda: capture(life.view, life.router)
    try:
        yield life, file, log
    finally:
        file.close()


def found_in(path: Path) -> dict[str, object]:
    return replay(path.read_text().splitlines(keepends=True))


async def test_two_files_at_most_and_each_can_be_replayed(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with recorded(path) as (life, file, _):
        for _ in range(60):
            life.live(60)
            await file.write()
        assert sorted(os.listdir(tmp_path)) == ["journal", "journal.1"]
        for each in (path, tmp_path / "journal.1"):
            assert found_in(each)["ok"]
            about = os.stat(each)
            assert about.st_size < 2 * MOST  # one batch beyond the half, and a whole state
            assert stat.S_IMODE(about.st_mode) == 0o600
        assert file.dropped == 0


async def test_what_waits_is_bounded_and_the_file_goes_on_from_a_whole_state(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with recorded(path, most_waiting=300) as (life, file, _):
        for _ in range(5):
            life.live(40)
            await file.write()
        life.live(400)  # the disk is slow: nothing is written meanwhile
        assert file.waiting <= 300
        lost = file.dropped
        assert lost > 300
        await file.write()
        life.live(40)
        await file.write()
        assert found_in(path)["ok"]
        assert found_in(tmp_path / "journal.1")["ok"]  # up to what was lost
        assert file.dropped == lost


async def test_a_disk_that_fails_ends_the_journal_alone(tmp_path: Path) -> None:
    with recorded(tmp_path / "journal") as (life, file, log):
        file._file.close()
        life.live(10)
        await file.write()
        assert "the journal has stopped" in log.getvalue()
        life.live(10)
        assert file.waiting == 0


async def test_a_value_without_a_form_ends_the_journal_alone(tmp_path: Path) -> None:
    with recorded(tmp_path / "journal") as (_, file, log):
        file.note(End(float("nan")))  # type: ignore[arg-type]  # what must never be
        await file.write()
        assert "the journal has stopped" in log.getvalue()


async def test_its_owner_writes_by_itself_and_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with recorded(path) as (life, file, _):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(file.run)
            life.live(50)
            await until(lambda: file.waiting == 0)
            life.live(50)
            tasks.cancel_scope.cancel()
        assert file.waiting == 0
        found = found_in(path)
        assert found["ok"]
        assert found["decisions"] == path.read_text().count('"do":"decide"') > 3


async def test_the_last_run_is_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_text("older\n")
    with recorded(path):
        pass
    assert (tmp_path / "journal.1").read_text() == "older\n"
    assert path.read_text().startswith('{"journal":"switchboard-journal"')


@pytest.mark.skipif(os.name == "nt", reason="paths")
async def test_a_file_that_cannot_be_made_stops_the_start(tmp_path: Path) -> None:
    settings = BalancerSettings(journal_file=str(tmp_path / "nowhere" / "journal"))
    with pytest.raises(SettingError, match=r"journal_file.*a file that can be written \(No such file or directory\)"):
        wire(settings, make_logger(io.StringIO(), "info"))
