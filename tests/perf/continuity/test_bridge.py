"""Calls through a process of another environment: told apart, in order, and over when it says so or ends."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest

from clients.realtime import CallFailed
from perf.continuity import bridge as bridge_module
from perf.continuity.bridge import BridgedCall, bridge
from perf.processes import ProgramFailed

pytestmark = pytest.mark.anyio

_ECHO = """
import asyncio, os, sys
sys.path.insert(0, sys.argv[1])
from calls_by_lines import say, serve

async def carry(call, events):
    while (event := await events.get())["type"] != "close":
        if event["type"] == "die":
            os._exit(1)
        say(call, event=event)
    return "as told"

asyncio.run(serve(carry))
"""


@pytest.fixture
def echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "echo_bridge.py").write_text(_ECHO)
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to(sys.executable)
    calls_by_lines = str(Path(bridge_module.__file__).parent / "bridges")
    monkeypatch.setattr(bridge_module, "_BRIDGES", tmp_path)
    monkeypatch.setattr(bridge_module, "_ROOT", tmp_path)
    return calls_by_lines


async def _heard(call: BridgedCall, count: int) -> list[str]:
    with anyio.fail_after(20):
        events = call.events()
        return [str((await anext(events))["type"]) for _ in range(count)]


async def test_calls_are_told_apart_and_end_as_they_are_told(echo: str) -> None:
    async with bridge("echo", "venv", echo) as carrying, carrying.dial("a") as one, carrying.dial("b") as two:
        for number in range(3):
            await one.send({"type": f"a{number}"})
            await two.send({"type": f"b{number}"})
        assert await _heard(one, 3) == ["a0", "a1", "a2"]
        assert await _heard(two, 3) == ["b0", "b1", "b2"]
        await one.send({"type": "close"})
        with pytest.raises(CallFailed, match="as told"):
            await _heard(one, 1)
        await two.send({"type": "die"})
        with pytest.raises(CallFailed, match="the client's process ended"):
            await _heard(two, 1)


async def test_a_client_that_is_not_installed_is_named(echo: str) -> None:
    with pytest.raises(ProgramFailed, match="nowhere is missing: make clients-test"):
        async with bridge("echo", "nowhere", echo):
            pass
