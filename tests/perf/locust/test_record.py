"""A session's record survives its line."""

from __future__ import annotations

import pytest

from perf.locust.record import Outcome, SessionRecord


def test_a_line_gives_the_record_back() -> None:
    record = SessionRecord(7, "grpc", False, 5_000_000, started_ns=12_500_000, ended_ns=2_005_000_000, outcome=Outcome.DROPPED)
    record.first_audio_ms.append(612.5)
    line = record.to_line()
    assert "\n" not in line
    assert SessionRecord.from_line(line) == record
    assert record.startup_ms == 7.5
    assert record.length_s == 2.0


def test_who_never_began_has_no_start_up() -> None:
    assert SessionRecord(1, "grpc", False, 5).startup_ms is None


@pytest.mark.parametrize("line", ["", "{}", '{"outcome": "eaten"}'])
def test_other_lines_are_refused(line: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        SessionRecord.from_line(line)
