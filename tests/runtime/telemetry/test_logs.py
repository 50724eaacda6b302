"""Log lines: one JSON object each, levels kept."""

from __future__ import annotations

import json

import pytest

from runtime.telemetry.logs import make_log


def test_a_line_is_an_object_with_its_bound_fields(capsys: pytest.CaptureFixture[str]) -> None:
    log = make_log("info", runtime_id="r")
    log.debug("unseen")
    log.info("session started", session_id="s")
    (line,) = capsys.readouterr().err.splitlines()
    written = json.loads(line)
    assert (written["event"], written["level"], written["runtime_id"], written["session_id"]) == (
        "session started",
        "info",
        "r",
        "s",
    )
    assert written["timestamp"].endswith("Z")
