"""Many calls held for long: what is lost, unanswered or grown is told as a miss; and a short run on real processes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from perf.bench.hold import _Tally, _verdict


def _missed(tally: _Tally, books: int = 10) -> list[str]:
    targets, _ = _verdict(tally, 10, books)
    return [target.name for target in targets if not target.is_met]


def test_whatever_is_lost_unanswered_or_grown_is_missed() -> None:
    whole = _Tally(open=10, turns_asked=4, turns_answered=4, waits_s=[0.5])
    whole.rss_mib += [(50.0, 50.0)] * 8
    assert _missed(whole) == []
    assert _missed(whole, books=9) == ["calls_in_the_books"]
    whole.lost["refused"] += 1
    whole.turns_asked += 1
    assert _missed(whole) == ["calls_lost", "turns_unanswered"]
    grown = _Tally(open=10)
    grown.rss_mib += [(50.0, 50.0)] * 4 + [(50.0, 53.0)] * 4
    assert _missed(grown) == ["memory_growth_of_a_process"]


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_short_run() -> None:
    command = [sys.executable, "-m", "perf.bench.hold", "--idle", "20", "--talking", "4", "--seconds", "4", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert done.stdout, done.stderr
    result = json.loads(done.stdout)
    values = {target["name"]: target["value"] for target in result["targets"]}
    assert (values["calls_lost"], values["calls_in_the_books"], values["turns_unanswered"]) == (0, 24, 0), result
    assert result["turns_answered"] >= 1
