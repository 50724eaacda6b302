"""A short fault run: real connections ended in every way, a kill -9 on the way, and nothing is left."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from perf.faults.plan import REASONS

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.mark.usefixtures("from_wheel")
def test_nothing_is_left_of_a_thousand_connections() -> None:  # requirement S1, S2, S3
    command = [sys.executable, "-m", "perf.faults", "sessions", "--connections", "1000", "--kills", "1", "--seed", "3", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=220, check=False)
    assert done.stdout, done.stderr
    result = json.loads(done.stdout)
    # How many reads fit in a short run says something of the machine.
    missed = [target for target in result["targets"] if not target["ok"] and target["name"] != "snapshots_read"]
    assert missed == [], result
    assert result["reader"]["reads"] > 10_000
    assert result["totals"]["lost"] >= result["kills_cut"]["surely"] > 0
    # Every reason that a runtime gives, and every ending, by each door that it has.
    assert set(result["totals"]["ended_by_reason"]) == {reason.value for reason in REASONS.values()}
