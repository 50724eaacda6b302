"""Prices and wrong placements, worked out by hand."""  # requirement P1

from __future__ import annotations

import pytest

from perf.locust.committed import Prices, judge_assignments, priced_cpu_s
from perf.locust.record import SessionRecord

_S = 1_000_000_000
_LISTENING = Prices(speech_ms_per_s=0, silence_ms_per_s=100, reply_ms_per_s=0, startup_ms=0)
"""A session that sends audio all the time costs a tenth of a core."""
_RUNTIMES = ("a", "b")


def _session(runtime_id: str, asked_s: float, ended_s: float, **measured: float) -> SessionRecord:
    asked_ns = int(asked_s * _S)
    record = SessionRecord(0, "grpc", False, asked_ns, started_ns=asked_ns + 1, ended_ns=int(ended_s * _S), runtime_id=runtime_id)
    record.listened_s = measured.get("listened_s", ended_s - asked_s)
    record.spoken_s = measured.get("spoken_s", 0.0)
    record.replied_s = measured.get("replied_s", 0.0)
    return record


def test_a_session_costs_what_it_did() -> None:
    prices = Prices(speech_ms_per_s=50, silence_ms_per_s=10, reply_ms_per_s=20, startup_ms=100, own_ms_per_s=5)
    session = _session("a", 0, 10, listened_s=10, spoken_s=4, replied_s=5)
    assert prices.cpu_s(session) == pytest.approx((100 + 100 + 200 + 100 + 50) / 1000)
    assert prices.cores(session) == pytest.approx(0.055)
    refused = SessionRecord(1, "grpc", False, 0)
    assert priced_cpu_s([session, refused], prices) == pytest.approx(0.55)


def test_a_moment_is_no_steady_cost() -> None:
    prices = Prices(speech_ms_per_s=0, silence_ms_per_s=0, reply_ms_per_s=0, startup_ms=100)
    assert prices.cores(_session("a", 0, 0.01)) == pytest.approx(0.1)


def test_a_placement_on_the_full_one_beside_a_roomy_one_is_counted() -> None:
    sessions = [_session("a", second, 100) for second in range(9)]  # the ninth makes 0.9
    judged = judge_assignments(sessions, _LISTENING, _RUNTIMES, cores=1.0, hard_limit=32)
    assert (judged.placements, judged.overloads) == (9, 1)
    assert judged.rate == pytest.approx(1 / 9)
    assert judged.worst == pytest.approx(0.9)


def test_without_a_roomy_one_nobody_is_to_blame() -> None:
    full = [_session("b", 0, 100) for _ in range(8)]
    sessions = full + [_session("a", second + 1, 100) for second in range(9)]
    assert judge_assignments(sessions, _LISTENING, _RUNTIMES, 1.0, 32).overloads == 0


def test_one_without_a_free_place_is_not_roomy() -> None:
    sessions = [_session("b", 0, 100)] + [_session("a", second + 1, 100) for second in range(9)]
    assert judge_assignments(sessions, _LISTENING, _RUNTIMES, 1.0, hard_limit=1).overloads == 0
    assert judge_assignments(sessions, _LISTENING, _RUNTIMES, 1.0, hard_limit=2).overloads == 1


def test_what_has_ended_is_committed_no_more() -> None:
    sessions = [_session("a", 0, 5) for _ in range(8)] + [_session("a", 5, 9), _session("a", 6, 9)]
    judged = judge_assignments(sessions, _LISTENING, _RUNTIMES, 1.0, 32)
    assert judged.overloads == 0
    assert judged.worst == pytest.approx(0.8)


def test_half_the_cores_is_twice_the_utilisation() -> None:
    sessions = [_session("a", second, 100) for second in range(5)]
    assert judge_assignments(sessions, _LISTENING, _RUNTIMES, 0.5, 32).worst == pytest.approx(1.0)


def test_nobody_placed_has_no_rate() -> None:
    refused = SessionRecord(1, "grpc", False, 0)
    assert judge_assignments([refused], _LISTENING, _RUNTIMES, 1.0, 32).rate is None
