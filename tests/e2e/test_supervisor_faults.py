"""A supervisor whose workers, agents, starter, settings and files misbehave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from perf.fleet import get_json
from perf.polling import until
from perf.processes import Program, ProgramFailed, running

pytestmark = [pytest.mark.e2e, pytest.mark.anyio, pytest.mark.timeout(180)]

_ROOT = Path(__file__).parents[2]
_PATIENCE_S = 60.0
_AGENT = """
import asyncio, os, pathlib, threading
class Agent:
    name = "front-desk"
    tools = ()
    def __init__(self):
        here = pathlib.Path({folder!r})
        print("a word of the agent", flush=True)
        (here / f"begun-{{os.getpid()}}").touch()
        if (here / "hang").exists():
            threading.Event().wait()
        if (here / "exit").exists():
            os._exit(int((here / "exit").read_text()))
        if (here / "print").exists():  # from the event loop, more than a pipe holds, when we have been ready for long
            def say():
                print("y" * 3_000_000, flush=True)
                (here / f"said-{{os.getpid()}}").touch()
            asyncio.get_running_loop().call_later(1.0, say)
    async def reply(self, turn):
        yield "hello."
"""


@dataclass(frozen=True)
class _Site:
    folder: Path
    supervisor: Program

    def lines(self, *events: str) -> list[dict[str, Any]]:
        whole, _, _ = (self.folder / "log").read_text().rpartition("\n")
        found = [json.loads(line) for line in whole.splitlines() if line.startswith('{"')]
        return [line for line in found if line["event"] in events]

    def pids(self) -> dict[str, int]:
        return {line["runtime_id"]: line["pid"] for line in self.lines("worker ready")}

    def begun(self) -> list[int]:
        """Processes that have begun to make their agent."""
        return [int(path.name.removeprefix("begun-")) for path in self.folder.glob("begun-*")]

    async def until(self, fact: Callable[[], bool]) -> None:
        await until(fact, _PATIENCE_S)

    async def load(self, index: int) -> dict[str, Any]:
        address = self.supervisor.ready["workers"][index]["http"]
        document: dict[str, Any] = await anyio.to_thread.run_sync(get_json, f"{address}/v1/load")
        return document

    async def metrics(self, index: int) -> str:
        address = self.supervisor.ready["workers"][index]["http"]
        return await anyio.to_thread.run_sync(_text, f"{address}/metrics")

    async def end(self, number: int = signal.SIGTERM) -> None:
        os.kill(self.supervisor.pid, number)
        with anyio.fail_after(_PATIENCE_S):
            assert await self.supervisor.wait() == 0


def _text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20.0) as answer:
        text: str = answer.read().decode()
        return text


@asynccontextmanager
async def _site(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str, wait: bool = True) -> AsyncIterator[_Site]:
    (folder / "some_agent.py").write_text(_AGENT.format(folder=str(folder)))
    monkeypatch.setenv("PYTHONPATH", f"{_ROOT}{os.pathsep}{folder}")
    settings = [
        *("--workers", "2", "--engines", "synthetic", "--machine-id", "m", "--agent", "some_agent:Agent"),
        *("--shared-memory", str(folder / "segment"), "--drain-timeout-s", "1"),
        *arguments,
    ]
    async with running("supervisor", "runtime", settings, log=folder / "log") as supervisor:
        if wait:
            await supervisor.wait_ready()
        yield _Site(folder, supervisor)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_an_agent_may_print_as_much_as_it_likes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "print").touch()
    async with _site(tmp_path, monkeypatch) as site:
        for pid in site.pids().values():
            await site.until((tmp_path / f"said-{pid}").exists)
        assert [(await site.load(index))["active"] for index in range(2)] == [0, 0]
        await site.end()
        # Two processes write to one file, and print ends its line with a write of its own.
        assert (tmp_path / "log").read_text().count("a word of the agent") == 2


async def test_a_signal_ends_a_supervisor_whose_workers_still_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hang").touch()
    async with _site(tmp_path, monkeypatch, wait=False) as site:
        await site.until(lambda: len(site.begun()) == 2)
        await site.end()
        assert not any(_is_alive(pid) for pid in site.begun())


async def test_a_start_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hang").touch()
    async with _site(tmp_path, monkeypatch, "--worker-start-s", "2", wait=False) as site:
        with pytest.raises(ProgramFailed, match="ended with status -9 before it was ready"):
            await site.supervisor.wait_ready()
        assert await site.supervisor.wait() == 2
        assert site.lines("worker killed")[0]["cause"] == "it was not ready within 2 s"


@pytest.mark.parametrize("status", [0, 3])
async def test_a_replacement_asked_for_while_a_worker_cannot_start_is_done_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    async with _site(tmp_path, monkeypatch) as site:
        before = site.pids()
        (tmp_path / "exit").write_text(str(status))
        os.kill(before["m-1"], signal.SIGKILL)
        await site.until(lambda: len(site.lines("worker restarts")) >= 3)
        os.kill(site.supervisor.pid, signal.SIGHUP)
        await site.until(lambda: len(site.lines("worker restarts")) >= 4)
        (tmp_path / "exit").unlink()
        await site.until(lambda: len(site.lines("supervisor has replaced its workers")) == 1)
        assert set(before.values()).isdisjoint(site.pids().values())
        await site.end()


async def test_two_hangups_take_one_worker_out_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _site(tmp_path, monkeypatch) as site:
        os.kill(site.supervisor.pid, signal.SIGHUP)
        await site.until(lambda: len(site.lines("draining")) == 2)  # the second of them: the first is ready again
        os.kill(site.supervisor.pid, signal.SIGHUP)
        await site.until(lambda: len(site.lines("supervisor has replaced its workers")) == 2)
        out = [1 if line["event"] == "draining" else -1 for line in site.lines("draining", "worker ready")[2:]]
        assert out == [1, -1] * 4
        await site.end()


async def test_flags_win_over_the_environment_and_a_file_also_in_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "settings.toml").write_text("workers = 2\nregion = 'north'\nhard_limit = 6\n")
    monkeypatch.setenv("SWITCHBOARD_RUNTIME_CONFIG", str(tmp_path / "settings.toml"))
    monkeypatch.setenv("SWITCHBOARD_RUNTIME_WORKERS", "2")
    monkeypatch.setenv("SWITCHBOARD_RUNTIME_HARD_LIMIT", "5")
    async with _site(tmp_path, monkeypatch, "--hard-limit", "32") as site:
        for index in range(2):
            load = await site.load(index)
            assert (load["hard_limit"], load["region"]) == (32, "north")
        await site.end()


async def test_a_supervisor_leaves_with_its_starter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _site(tmp_path, monkeypatch) as site:
        workers = site.pids().values()
        await site.supervisor.let_go()
        with anyio.fail_after(_PATIENCE_S):
            assert await site.supervisor.wait() == 0
        assert not any(_is_alive(pid) for pid in workers)


_STARTER = """
import sys
from pathlib import Path
import anyio
from perf.processes import running
async def main():
    arguments = ["--workers", "2", "--engines", "synthetic", "--machine-id", "m", "--shared-memory", sys.argv[1] + "/segment"]
    async with running("supervisor", "runtime", arguments, log=Path(sys.argv[1], "log")) as supervisor:
        await supervisor.wait_ready()
        print(supervisor.pid, flush=True)
        await anyio.Event().wait()
anyio.run(main)
"""


def _start_and_kill_a_starter(folder: Path) -> list[int]:
    """Answers the processes that it had started, directly or not."""
    command = [sys.executable, "-c", _STARTER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=_ROOT, text=True) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        workers = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        starter.kill()
    return [pid, *map(int, workers)]


async def test_nothing_outlives_a_starter_that_is_killed(tmp_path: Path) -> None:
    family = await anyio.to_thread.run_sync(_start_and_kill_a_starter, tmp_path)
    assert len(family) == 3
    await until(lambda: not any(_is_alive(each) for each in family), _PATIENCE_S)
    assert not (tmp_path / "segment").exists()


async def test_a_worker_that_stands_still_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _site(tmp_path, monkeypatch, "--worker-silence-s", "3") as site:
        before = site.pids()
        os.kill(before["m-1"], signal.SIGSTOP)
        await site.until(lambda: site.pids()["m-1"] != before["m-1"])
        assert site.pids()["m-2"] == before["m-2"]
        assert [line["cause"] for line in site.lines("worker killed")] == ["its event loop said nothing for 3 s"]
        await site.end()


async def test_a_stopped_worker_leaves_when_it_goes_on_and_its_supervisor_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _site(tmp_path, monkeypatch) as site:
        worker = site.pids()["m-1"]
        os.kill(worker, signal.SIGSTOP)
        site.supervisor.kill()
        await site.supervisor.wait()
        os.kill(worker, signal.SIGCONT)
        await site.until(lambda: not _is_alive(worker))


async def test_the_counters_go_on_when_their_file_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _site(tmp_path, monkeypatch) as site:
        before = site.pids()
        (tmp_path / "segment").unlink()
        os.kill(before["m-1"], signal.SIGKILL)
        await site.until(lambda: site.pids()["m-1"] != before["m-1"])
        assert site.lines("shared memory is hidden")
        assert "switchboard_machine_sessions_lost_total 0.0" in await site.metrics(1)
        await site.end()


async def test_workers_are_in_no_group_of_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hangup or an interrupt from there goes to a whole group; it is the supervisor's to obey."""
    async with _site(tmp_path, monkeypatch) as site:
        assert [os.getpgid(pid) for pid in site.pids().values()] == list(site.pids().values())
        await site.end(signal.SIGINT)
