"""Every counter that is left, and every end that nobody can explain, is named."""  # requirement P1

from __future__ import annotations

import copy
from typing import Any

import pytest

from perf.locust.figures import FleetSample, Settled, callers_told, distribution, residue, startup_percentile_ms, unexplained
from perf.locust.record import Outcome, SessionRecord

_ENDED = {"closed_by_caller": 2, "connection_lost": 1}


def _settled() -> Settled:
    """Three sessions have been, and nothing is left."""
    fleet: dict[str, Any] = {
        "totals": {"active": 0, "reserved": 0, "in_flight": 0},
        "books": {
            "active": 0,
            "being_placed": 0,
            "balanced": True,
            "event_gaps": 0,
            "started": 3,
            "recovered": 0,
            "moved_in": 0,
            "moved_out": 0,
            "runtime_lost": 0,
            "ended": dict(_ENDED),
        },
        "runtimes": [{"runtime_id": "a", "books": {"disagreement": 0}}],
    }
    totals = {"started": 3, "moved_in": 0, "moved_out": 0, "lost": 0, "ended": dict(_ENDED)}
    load = {"active": 0, "reserved": 0, "speaking": 0, "queue_length": 0, "totals": totals}
    return Settled(copy.deepcopy(fleet), {"a": load}, {"relayed": 0.0})


def _session(outcome: Outcome, startup_ms: float | None = 10.0) -> SessionRecord:
    started_ns = 1_000_000_000 + int(startup_ms * 1e6) if startup_ms is not None else 0
    return SessionRecord(1, "websocket", False, 1_000_000_000, started_ns=started_ns, outcome=outcome, runtime_id="a")


def _three() -> list[SessionRecord]:
    return [_session(Outcome.GOODBYE), _session(Outcome.GOODBYE), _session(Outcome.DISCONNECTED)]


def test_at_rest_nothing_is_left_and_all_ends_are_explained() -> None:
    assert residue(_settled()) == {}
    assert unexplained(_three(), _settled()) == {}


@pytest.mark.parametrize("name", ["active", "reserved", "in_flight"])
def test_what_the_fleet_still_counts_is_named(name: str) -> None:
    settled = _settled()
    settled.fleet["totals"][name] = 2
    assert residue(settled) == {f"fleet.{name}": 2}


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("books", "active"), 1, "books.active"),
        (("books", "being_placed"), 1, "books.being_placed"),
        (("books", "balanced"), False, "books.unbalanced"),
        (("books", "event_gaps"), 1, "books.event_gaps"),
    ],
)
def test_what_the_books_still_hold_is_named(path: tuple[str, str], value: object, named: str) -> None:
    settled = _settled()
    settled.fleet[path[0]][path[1]] = value
    assert residue(settled) == {named: 1}


@pytest.mark.parametrize("name", ["active", "reserved", "speaking", "queue_length"])
def test_what_a_runtime_still_counts_is_named(name: str) -> None:
    settled = _settled()
    loads = {"a": {**settled.loads["a"], name: -1}}
    assert residue(Settled(settled.fleet, loads, settled.relay)) == {f"a.{name}": -1}


def test_totals_that_do_not_add_up_are_residue() -> None:
    settled = _settled()
    settled.loads["a"]["totals"]["started"] = 4
    settled.fleet["runtimes"][0]["books"]["disagreement"] = 1
    assert residue(Settled(settled.fleet, settled.loads, {"relayed": 1.0})) == {
        "a.ledger": 1,
        "a.books.disagreement": 1,
        "relay.relayed": 1.0,
    }


def test_a_session_that_the_books_do_not_have_is_unexplained() -> None:
    extra = [*_three(), _session(Outcome.GOODBYE)]
    assert unexplained(extra, _settled()) == {"started_by_callers_and_books": 1, "goodbyes": 1}


def test_a_wrong_reason_is_unexplained() -> None:
    settled = _settled()
    for ended in (settled.fleet["books"]["ended"], settled.loads["a"]["totals"]["ended"]):
        ended["connection_lost"], ended["handler_error"] = 0, 1
    assert unexplained(_three(), settled) == {"cut_lines": 1, "other_reasons": 1}


def test_a_dropped_session_explains_one_odd_end() -> None:
    settled = _settled()
    for ended in (settled.fleet["books"]["ended"], settled.loads["a"]["totals"]["ended"]):
        ended["connection_lost"], ended["handler_error"] = 0, 1
    sessions = [_session(Outcome.GOODBYE), _session(Outcome.GOODBYE), _session(Outcome.DROPPED)]
    assert unexplained(sessions, settled) == {}


def test_balancer_and_runtime_must_tell_the_same() -> None:
    settled = _settled()
    settled.loads["a"]["totals"]["ended"]["closed_by_caller"] = 1
    assert unexplained(_three(), settled) == {"books_and_runtimes": 1}


def test_a_refusal_is_the_worst_start_up() -> None:
    sessions = [_session(Outcome.GOODBYE, float(number)) for number in range(1, 100)]
    assert startup_percentile_ms(sessions, 0.95) == 95.0
    sessions += [_session(Outcome.REFUSED, None) for _ in range(3)]
    assert startup_percentile_ms(sessions, 0.95) == 97.0
    assert startup_percentile_ms(sessions, 0.99) is None
    assert startup_percentile_ms([], 0.5) is None


def test_distribution_over_time() -> None:
    samples = [
        FleetSample(0.0, {"a": 0, "b": 0}, {}),
        FleetSample(0.5, {"a": 2, "b": 2}, {"a": 0.5, "b": 0.25}),
        FleetSample(1.0, {"a": 3, "b": 1}, {"a": 1.0, "b": 0.5}),
    ]
    shown = distribution(samples, ["a", "b"])
    assert shown["max_over_mean"] == 1.25
    assert shown["runtimes"]["a"] == {
        "mean_sessions": 1.67,
        "most_sessions": 3,
        "mean_utilisation": 0.5,
        "most_utilisation": 1.0,
    }
    assert distribution([], ["a"])["max_over_mean"] is None


def test_callers_are_counted_by_wire_and_outcome() -> None:
    told = callers_told(_three())
    assert told == {"websocket": {"goodbye": 2, "disconnected": 1, "refused": 0, "dropped": 0}}
