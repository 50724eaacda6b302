"""The main job, from the installed wheel: real processes, real models, real recorded speech."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perf.demo.script import OWN_RECORDINGS

pytestmark = [pytest.mark.e2e, pytest.mark.models, pytest.mark.timeout(400)]


def _demo(*arguments: str) -> tuple[int, dict[str, Any], str]:
    command = [sys.executable, "-m", "perf.demo", "--once", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=380, check=False)
    assert done.stdout.count("\n") == 1, f"one line of JSON is expected:\n{done.stdout}\n{done.stderr}"
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.mark.usefixtures("from_wheel")
def test_the_demo_meets_its_targets() -> None:
    status, result, progress = _demo()
    missed = [target for target in result["targets"] if not target["ok"]]
    assert not missed, f"{missed}\n{json.dumps(result['calls'], indent=1)}"
    assert (status, result["ok"]) == (0, True)
    assert {target["name"] for target in result["targets"]} >= {
        "transcript_word_error",
        "reply_audio_word_error",
        "books_balanced",
    }
    assert len(result["calls"]) >= 8
    for call in result["calls"]:
        assert call["transcript"]
        assert call["reply_text"]
        assert call["reply_seconds"] > 0.5
        assert call["turn_latency_ms"] > 0
        assert call["runtime"].startswith("runtime-")
        assert "of" in call["reason"]
        assert call["tools"][0]["name"] == "take_message"
    ledger = result["ledger"]
    assert ledger["started"] == ledger["attempted"] - ledger["refused"] == ledger["ended"]
    assert ledger["active"] == 0
    assert sum(result["sessions_by_runtime"].values()) == ledger["started"]
    assert "runtime-3 is ready" in progress


@pytest.mark.usefixtures("from_wheel")
def test_a_folder_with_other_recordings(tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    for name in ("austen-0930", "cards-003"):
        shutil.copy(OWN_RECORDINGS / f"{name}.wav", folder / f"{name}-renamed.wav")
        shutil.copy(OWN_RECORDINGS / f"{name}.txt", folder / f"{name}-renamed.txt")
    status, result, _ = _demo("--wav", str(folder))
    assert status == 0, result
    assert {call["recording"] for call in result["calls"]} == {"austen-0930-renamed", "cards-003-renamed"}


def test_what_is_missing_is_one_clear_line(tmp_path: Path) -> None:
    shutil.copy(OWN_RECORDINGS / "cards-003.wav", tmp_path / "a.wav")
    for arguments, words in (
        (("--wav", str(tmp_path / "nowhere")), "it is no folder"),
        (("--wav", str(tmp_path)), "a.txt"),
    ):
        status, result, errors = _demo(*arguments)
        assert (status, result["ok"]) == (1, False)
        assert words in result["reason"]
        assert len(errors.strip().splitlines()) == 1


def test_a_busy_port_is_one_clear_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        status, result, errors = _demo("--port", str(taken.getsockname()[1]))
    assert (status, result["ok"]) == (1, False)
    assert "is taken" in result["reason"]
    assert "--port" in result["reason"]
    assert len(errors.strip().splitlines()) == 1
