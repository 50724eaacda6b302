"""Unmodified third-party clients, each in an environment of its own, hold a whole conversation through the balancer.

`make clients-test` installs them and runs this. One at a time: several at once on two cores tell nothing about a client.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from perf.fleet import LocalFleet, local_fleet
from perf.polling import until
from runtime.engines.hibari import HibariSynthesizer
from runtime.engines.worker import WorkerPool

_ROOT = Path(__file__).parents[2]
_SCRIPTS = Path(__file__).parent / "scripts"
_SAID = {
    "greeting": "Good morning, I would like to talk to you.",
    "weather": "What is the weather in Paris?",
    "story": "Please tell me a long story.",
    "interruption": "Please stop now because I have another question for you.",
}

_ANSWERED_BEFORE = 2
"""Turns of at least four."""


@dataclass(frozen=True)
class Client:
    environment: str
    script: str
    arguments: tuple[str, ...] = ()

    @property
    def python(self) -> Path:
        return _ROOT / self.environment / "bin" / "python"


_CLIENTS = {
    "openai-sync": Client(".venv-openai", "openai_conversation.py", ("sync",)),
    "openai-async": Client(".venv-openai", "openai_conversation.py", ("async",)),
    "openai-agents": Client(".venv-openai-agents", "agents_conversation.py"),
    "pipecat": Client(".venv-pipecat", "pipecat_conversation.py"),
}

pytestmark = [
    pytest.mark.clients,
    pytest.mark.models,
    pytest.mark.anyio,
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The caller's words as raw files, spoken by the product's own synthesiser."""
    folder = tmp_path_factory.mktemp("speech")
    with closing(WorkerPool(1, 4)) as pool:
        voice = HibariSynthesizer(pool)
        for name, text in _SAID.items():
            (folder / f"{name}.raw").write_bytes(voice.speak(text).astype("<i2").tobytes())
    return folder


@asynccontextmanager
async def _fleet(runtimes: int, logs: Path) -> AsyncIterator[LocalFleet]:
    ports = ["--public-port", "0", "--operator-port", "0", "--control-port", "0"]
    agent = ["--agent", "examples.client_tools_agent:ClientToolsAgent"]
    async with local_fleet(runtimes, logs, balancer_arguments=ports, runtime_arguments=agent) as fleet:
        yield fleet


@pytest.mark.parametrize("name", sorted(_CLIENTS))
async def test_a_conversation(name: str, tmp_path: Path, speech: Path) -> None:  # requirements V2, V4
    async with _fleet(1, tmp_path) as fleet:
        _check(name, await _conversation(name, fleet, speech))
        await fleet.wait_for("the session ended", lambda told: told["books"]["ended"] == {"closed_by_caller": 1}, 20)


@pytest.mark.parametrize("name", sorted(_CLIENTS))
async def test_a_conversation_whose_runtime_is_killed(name: str, tmp_path: Path, speech: Path) -> None:  # requirement C3
    """The client is told nothing and does nothing for it: what it has is the conversation of an undisturbed call."""
    seen: dict[str, Any] = {}

    async def converse() -> None:
        seen.update(await _conversation(name, fleet, speech))

    async with _fleet(2, tmp_path) as fleet, anyio.create_task_group() as group:
        group.start_soon(converse)
        told = await fleet.wait_for("the call", lambda told: told["totals"]["active"] == 1, 30)
        (serving,) = [number for number, runtime in enumerate(told["runtimes"]) if runtime["active"]]
        metrics = str(fleet.runtimes[serving].ready["http"]) + "/metrics"
        await until(lambda: _answered(metrics) >= _ANSWERED_BEFORE, 60)
        assert not seen, "the conversation is still going on"
        fleet.runtimes[serving].kill()
    _check(name, seen)
    assert sum("move ended" in line for line in (tmp_path / "balancer.log").read_text().splitlines()) == 1


async def _conversation(name: str, fleet: LocalFleet, speech: Path) -> dict[str, Any]:
    client = _CLIENTS[name]
    assert client.python.exists(), f"{client.environment} is missing: make clients-test installs it"
    done = await anyio.to_thread.run_sync(_run, client, fleet.public.replace("http://", "ws://") + "/v1", speech)
    assert done.returncode == 0, done.stderr[-3000:]
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def _answered(metrics: str) -> int:
    """Turns to which the runtime has begun to speak."""
    with urllib.request.urlopen(metrics, timeout=10) as answer:
        counts = re.findall(r'turn_latency_seconds_count\{stage="first_audio"\} (\S+)', answer.read().decode())
    return sum(int(float(count)) for count in counts)


def _check(name: str, seen: dict[str, Any]) -> None:
    assert not seen.get("error"), seen
    assert not seen.get("errors"), seen
    transcripts, replies = " ".join(seen["transcripts"]).lower(), " ".join(seen["replies"]).lower()
    for word in ("morning", "weather", "story", "question"):
        assert word in transcripts, seen
    assert "you said: good morning" in replies, "a spoken turn"
    assert (seen["tool"]["name"], seen["tool"]["arguments"]) == ("get_weather", {"city": "Paris"})
    assert "i was told:" in replies
    assert "blue" in replies, "a tool call"
    assert "another question" in replies, "the turn after the barge-in"
    assert seen["audio_bytes"] > 5 * 48_000
    if "statuses" in seen:
        assert "cancelled" in seen["statuses"], "a barge-in"
        assert seen["statuses"][-1] == "completed"
    else:
        assert seen["interrupted_after_chunks"] < 400, "a barge-in"
    # The story has eight sentences: had it not been interrupted, they would all have come.
    assert seen["audio_bytes"] < 40 * 48_000
    if name == "openai-agents":
        assert {"conversation.item.truncated", "conversation.item.retrieved"} <= set(seen["raw"])


def _run(client: Client, base_url: str, speech: Path) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    command = [str(client.python), str(_SCRIPTS / client.script), *client.arguments, base_url, str(speech)]
    return subprocess.run(command, capture_output=True, text=True, timeout=150, env=environment, check=False, cwd=speech)
