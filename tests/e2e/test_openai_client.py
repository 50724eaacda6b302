"""The unmodified `openai` SDK, in an environment of its own, speaks a turn through the balancer."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import anyio
import pytest

from perf.demo.scoring import contains_words, word_error_rate
from perf.demo.script import OWN_RECORDINGS, read_recordings
from perf.fleet import local_fleet

_ROOT = Path(__file__).parents[2]
_PYTHON = _ROOT / ".venv-openai" / "bin" / "python"
_SCRIPT = Path(__file__).parent / "scripts" / "openai_spoken_turn.py"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.models,
    pytest.mark.anyio,
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        not _PYTHON.exists() and "CI" not in os.environ, reason="the openai SDK is not installed: make .venv-openai/.ready"
    ),
]


@pytest.mark.usefixtures("from_wheel")
async def test_a_spoken_turn(tmp_path: Path) -> None:  # requirement V4
    recording = next(each for each in read_recordings(OWN_RECORDINGS) if each.name == "austen-0930")
    raw = tmp_path / "speech.raw"
    raw.write_bytes(recording.samples.astype("<i2").tobytes())
    ports = ["--public-port", "0", "--operator-port", "0", "--control-port", "0"]
    async with local_fleet(1, tmp_path, balancer_arguments=ports, runtime_arguments=[]) as fleet:
        base_url = fleet.public.replace("http://", "ws://") + "/v1"
        done = await anyio.to_thread.run_sync(_speak, base_url, raw)
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout)
        assert "error" not in seen, seen
        assert seen["status"] == "completed"
        assert word_error_rate([(recording.reference, seen["transcript"])]) < 0.15
        assert contains_words(seen["reply"], seen["transcript"])
        assert seen["audio_bytes"] > 2 * 24_000
        for kind in (
            "session.created",
            "session.updated",
            "input_audio_buffer.speech_started",
            "response.created",
            "response.done",
        ):
            assert kind in seen["kinds"]
        await fleet.wait_for("the session ended", lambda fleet: fleet["books"]["ended"] == {"closed_by_caller": 1}, 20)


def _speak(base_url: str, raw: Path) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    command = [str(_PYTHON), str(_SCRIPT), base_url, str(raw)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
