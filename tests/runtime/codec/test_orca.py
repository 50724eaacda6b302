"""A snapshot as a standard report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.codec.orca import orca_report
from runtime.primitives.load_snapshot import LegTotals, LoadSnapshot, RuntimeState

_S = 1_000_000_000
_SNAPSHOT = LoadSnapshot("r", 1, 1, 0, 10 * _S, 0, 90, 0, 100, LegTotals(), RuntimeState.READY, utilisation=0.4)


def test_the_rate_is_sessions_over_the_window() -> None:  # requirement L1, R1
    report = orca_report(_SNAPSHOT)
    assert report.rps_fractional == pytest.approx(9.0)
    assert report.cpu_utilization == 0.4
    assert report.application_utilization == 0.9
    assert report.named_metrics["switchboard.active"] == 90


def test_an_idle_runtime_has_nothing_that_is_zero() -> None:
    """Envoy drops a report whose rate or utilisation is not positive, and keeps the old weight."""
    report = orca_report(replace(_SNAPSHOT, active=0, utilisation=0.0))
    assert report.rps_fractional > 0
    assert report.cpu_utilization > 0
    assert report.application_utilization > 0


@pytest.mark.parametrize("state", [RuntimeState.DRAINING, RuntimeState.OFFLINE, RuntimeState.STARTING])
def test_who_takes_nothing_is_full(state: RuntimeState) -> None:
    report = orca_report(replace(_SNAPSHOT, active=1, state=state))
    assert report.application_utilization >= 1.0
    assert report.named_metrics["switchboard.takes_calls"] == 0
