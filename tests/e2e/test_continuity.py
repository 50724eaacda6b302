"""Calls outlive the process that serves them, as `python -m perf.continuity` has them: real processes, real sockets."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(240)]


def _measured(mode: str, client: str) -> dict[str, Any]:
    arguments = ["--mode", mode, "--client", client, "--calls", "12", "--seed", "1", "--json"]  # more than ten: synthetic engines
    done = subprocess.run(
        [sys.executable, "-m", "perf.continuity", *arguments], capture_output=True, text=True, timeout=220, check=False
    )
    assert done.stdout, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize(("mode", "client"), [("kill", "realtime"), ("drain", "grpc"), ("stop", "grpc")])
def test_no_call_is_lost_and_nothing_is_said_or_done_twice(mode: str, client: str) -> None:  # requirement C1, C3
    result = _measured(mode, client)
    facts = ("calls_lost", "messages_lost", "messages_twice", "messages_out_of_order", "event_ids_twice", "effects_twice")
    assert {fact: result[fact] for fact in facts} == dict.fromkeys(facts, 0), result
    assert (result["moved"], result["third_turns_answered"]) == (12, 12), result
    assert result["messages_sent"] > 0
    assert result["effects"] >= 36
