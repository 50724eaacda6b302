"""Bad reports are dropped by field, named, and zero nothing."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.capacity.report_check import TrustedReport, check_report
from runtime.primitives.load_snapshot import LegTotals, LoadSnapshot, RuntimeState

GOOD = LoadSnapshot(
    runtime_id="r1", incarnation=5, sequence=3, window_start_ns=0, window_end_ns=10, ledger_version=9, active=7, reserved=1,
    hard_limit=20, totals=LegTotals(started=9, ended={"closed_by_caller": 2}), state=RuntimeState.READY, utilisation=0.5,
    utilisation_fast=0.4, machine_utilisation=0.3, speaking=2, loop_lag_p99_ms=1.5,
)  # fmt: skip
BEFORE = TrustedReport(replace(GOOD, sequence=2, active=6, utilisation=0.45, hard_limit=19))


def test_a_good_report_passes_unchanged() -> None:
    assert check_report(GOOD, BEFORE) == TrustedReport(GOOD)


# requirement L3
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("utilisation", math.nan), ("utilisation", math.inf), ("utilisation", -0.1), ("utilisation", 16.1),
        ("utilisation_fast", math.nan), ("machine_utilisation", 1.1), ("machine_utilisation", -0.5),
        ("loop_lag_p99_ms", -1.0), ("loop_lag_p99_ms", math.inf), ("startup_p99_ms", math.nan), ("active", -1),
        ("active", 100_001), ("reserved", -3), ("hard_limit", 0), ("hard_limit", 2**31), ("speaking", -1), ("speaking", 8),
        ("memory_bytes", -1), ("queue_length", -1), ("gpu_memory_ratio", math.nan), ("kv_cache_ratio", 2.0),
        ("context_window_remaining", -1), ("missed_audio_deadlines", -1),
    ],
)  # fmt: skip
def test_a_bad_field_is_dropped_and_the_rest_stands(field: str, value: float) -> None:
    found = check_report(replace(GOOD, **{field: value}), BEFORE)  # type: ignore[arg-type]  # one bad field at a time
    assert field in found.dropped
    assert getattr(found.snapshot, field) == getattr(BEFORE.snapshot, field)
    for other in fields(LoadSnapshot):
        if other.name not in (field, "totals", "speaking"):
            assert getattr(found.snapshot, other.name) == getattr(GOOD, other.name)
    assert (found.utilisation is None) == (field == "utilisation")


def test_honest_overload_is_not_absurd() -> None:  # bugs R19, B15
    assert check_report(replace(GOOD, utilisation=1.7), BEFORE).utilisation == 1.7


def test_a_first_report_without_a_count_is_not_idle() -> None:  # bug B7
    found = check_report(replace(GOOD, active=-1))
    assert found.snapshot.hard_limit == 0


def test_values_of_an_older_life_are_not_carried_over() -> None:
    other_life = TrustedReport(replace(GOOD, incarnation=4, reserved=3))
    assert check_report(replace(GOOD, reserved=-1), other_life).snapshot.reserved == 0


def test_totals_that_do_not_add_up_lose_their_word_only() -> None:
    found = check_report(replace(GOOD, totals=LegTotals(started=1)), BEFORE)
    assert found.dropped == ("totals",)
    assert found.snapshot.active == 7
    assert found.snapshot.totals == BEFORE.snapshot.totals


def test_fields_that_did_not_translate_take_the_last_trusted_value() -> None:
    found = check_report(replace(GOOD, state=RuntimeState.OFFLINE), BEFORE, untranslated=("state",))
    assert found.snapshot.state is RuntimeState.READY
    assert found.dropped == ("state",)


@given(
    utilisation=st.floats(allow_nan=True, allow_infinity=True),
    lag=st.floats(allow_nan=True, allow_infinity=True),
    active=st.integers(-(2**40), 2**40),
    hard_limit=st.integers(-(2**40), 2**40),
    with_previous=st.booleans(),
)
def test_whatever_comes_in_what_comes_out_is_usable(
    utilisation: float, lag: float, active: int, hard_limit: int, with_previous: bool
) -> None:
    report = replace(GOOD, utilisation=utilisation, loop_lag_p99_ms=lag, active=active, hard_limit=hard_limit)
    found = check_report(report, BEFORE if with_previous else None)
    snapshot = found.snapshot
    assert 0 <= snapshot.active <= 100_000
    assert 0 <= snapshot.hard_limit <= 100_000
    assert 0 <= snapshot.utilisation <= 16
    assert 0 <= snapshot.loop_lag_p99_ms <= 3_600_000
