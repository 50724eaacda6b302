"""Journal lines: what is written is read again; what is not ours is named by its line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from balancer.routing import journal_lines
from balancer.routing.journal import Entry
from balancer.routing.journal_lines import (
    BadJournal,
    entry_from_line,
    entry_to_line,
    header_from_line,
    header_to_line,
    read_journal,
)
from tests.balancer.support.journals import RecordedLife


def life() -> RecordedLife:
    made = RecordedLife()
    made.live(400)
    made.router.use(made.header.options.make("random"))
    return made


def same(one: Entry, other: Entry) -> bool:
    return entry_to_line(one, 2) == entry_to_line(other, 2) and type(one) is type(other)


def test_every_entry_comes_back_as_it_was() -> None:
    made = life()
    kinds = {type(each) for each in made.entries}
    assert len(kinds) == len(journal_lines._KINDS) - 1  # all but the checkpoint, which has its own test
    for entry in made.entries:
        again = entry_from_line(entry_to_line(entry, 2), 2)
        assert same(entry, again)
        for name in getattr(entry, "__slots__", ()):
            was, now = getattr(entry, name), getattr(again, name)
            if name not in ("reports", "known"):
                assert was == now
    report = next(each for each in made.entries if type(each).__name__ == "Report")
    read = entry_from_line(entry_to_line(report, 2), 2)
    np.testing.assert_array_equal(read.reports.utilisation, report.reports.utilisation)  # type: ignore[union-attr]
    assert header_from_line(header_to_line(made.header)) == made.header


def test_every_line_is_plain_json() -> None:
    for line in life().lines():
        assert "NaN" not in line
        json.loads(line, parse_constant=lambda text: pytest.fail(text))


def test_a_last_line_that_was_not_finished_is_left_out() -> None:
    lines = life().lines()
    _, entries = read_journal([*lines[:10], lines[10][:-5]])
    assert [number for number, _ in entries] == list(range(2, 11))


def test_a_line_that_is_missing_in_between_is_noticed() -> None:
    lines = life().lines()
    del lines[20]
    _, entries = read_journal(lines)
    with pytest.raises(BadJournal, match="line 21: this is line '22' of what was written; one is missing"):
        list(entries)


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ("", "line 1: empty, or not a journal"),
        ("hello\n", "line 1: not JSON"),
        ("[]\n", "line 1: not a JSON object"),
        ('{"event": "ready"}\n', "line 1: not a journal of a switchboard balancer"),
        ('{"journal": "switchboard-journal", "format": 99}\n', "line 1: format is 99; this version reads 2"),
        ('{"journal": "switchboard-journal", "format": 2}\n', "line 1: the header is incomplete or wrong: 'rule'"),
    ],
)
def test_a_foreign_file_is_named(first: str, message: str) -> None:
    with pytest.raises(BadJournal, match=message):
        read_journal([first] if first else [])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("\n", "line 7: not JSON"),
        ("\x00\x01\n", "line 7: not JSON"),
        ("3\n", "line 7: not a JSON object"),
        ('{"n": 7, "do": "dance"}\n', "line 7: unknown entry 'dance'"),
        ('{"n": 7, "do": 3}\n', "line 7: unknown entry '3'"),
        ('{"n": 7, "do": "place", "slot": 1}\n', "line 7: a place entry is incomplete or wrong"),
        ('{"n": 7, "do": "place", "slot": 1, "now_ns": 2, "more": 3}\n', "line 7: a place entry is incomplete or wrong"),
        ('{"n": 7, "do": "put", "facts": {}}\n', "line 7: a put entry is incomplete or wrong"),
        (
            '{"n": 7, "do": "report", "now_ns": 1, "known": null, "holds_all": false, "reports": {"slots": [1]}}\n',
            "line 7: a report entry",
        ),
        (
            '{"n": 7, "do": "decide", "now_ns": 1, "request": {"session_id": 4}}\n',
            "line 7: a decide entry is incomplete or wrong",
        ),
    ],
)
def test_a_broken_line_is_named(line: str, message: str) -> None:
    with pytest.raises(BadJournal, match=message):
        entry_from_line(line, 7)


def test_a_policy_that_is_not_ours_is_named() -> None:
    made = RecordedLife()
    header = header_to_line(made.header).replace('"policy":"session_aware"', '"policy":"magic"')
    with pytest.raises(BadJournal, match="policy is 'magic'; allowed: session_aware"):
        header_from_line(header)
