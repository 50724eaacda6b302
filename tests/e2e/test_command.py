"""The `switchboard` command: help that helps, settings that are refused by name, and a live call."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from clients.wav_files import read_wav
from perf.demo.script import OWN_RECORDINGS
from perf.fleet import local_fleet

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


def _switchboard(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "clients.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--help"], ["runtime", "balancer", "call", "demo"]),
        (["runtime", "--help"], ["--hard-limit", "SWITCHBOARD_RUNTIME", "--config"]),
        (["balancer", "--help"], ["--target-utilisation", "SWITCHBOARD_BALANCER"]),
        (["call", "--help"], ["FILE", "--output", "--url"]),
        (["demo", "--help"], ["--once", "--json", "--wav"]),
    ],
)
def test_help_helps(arguments: list[str], words: list[str]) -> None:
    done = _switchboard(*arguments)
    assert done.returncode == 0
    for word in words:
        assert word in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["runtime", "--hard-limit", "0"], ["hard_limit", "0", "at least 1"]),
        (["runtime", "--version", "x"], ["version", "'x'", "dotted whole numbers"]),
        (["runtime", "--balancers", "somewhere"], ["balancers", "somewhere", "host:port"]),
        (["runtime", "--idle-s", "inf"], ["idle_s", "inf", "above 0"]),
        (["runtime", "--agent", "no.such:Agent"], ["agent", "no.such:Agent", "module:Class"]),
        (["balancer", "--target-utilisation", "nan"], ["target_utilisation", "nan", "at most 1"]),
        (["balancer", "--lease-ttl-ms", "1000"], ["lease_ttl_ms", "1000", "heartbeat"]),
        (["call", "nowhere.wav"], ["nowhere.wav", "No such file"]),
    ],
)
def test_a_bad_value_is_one_line_with_name_value_and_range(arguments: list[str], words: list[str]) -> None:
    done = _switchboard(*arguments)
    assert done.returncode in (1, 2)
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for word in words:
        assert word in done.stderr


@pytest.mark.anyio
@pytest.mark.models
@pytest.mark.usefixtures("from_wheel")
async def test_a_call_is_told_live_and_written_to_a_file(tmp_path: Path) -> None:
    ports = ["--public-port", "0", "--operator-port", "0", "--control-port", "0"]
    async with local_fleet(1, tmp_path, balancer_arguments=ports, runtime_arguments=[]) as fleet:
        answer = tmp_path / "answer.wav"
        recording = str(OWN_RECORDINGS / "austen-0880.wav")
        done = await anyio.to_thread.run_sync(
            lambda: _switchboard("call", recording, "--url", fleet.call_url, "--output", str(answer))
        )
        assert done.returncode == 0, done.stderr
        for word in ("connects", "heard", "tool", "says", "runtime-1"):
            assert word in done.stdout
        samples = read_wav(answer, 24_000)
        assert len(samples) > 24_000
        assert abs(samples).max() > 1_000
