"""The overload guard: closes on either signal and opens only when well below."""

from __future__ import annotations

import pytest

from runtime.session.guard import OverloadGuard, Saturation


@pytest.mark.parametrize(
    ("seen", "admits"),
    [
        ([(0.5, 10.0)], True),
        ([(1.01, 10.0)], False),
        ([(0.5, 101.0)], False),
        ([(1.01, 10.0), (0.95, 10.0)], False),
        ([(1.01, 10.0), (0.84, 10.0)], True),
        ([(1.01, 10.0), (0.84, 90.0)], False),
        ([(0.95, 10.0)], True),
    ],
)
def test_hysteresis(seen: list[tuple[float, float]], admits: bool) -> None:
    guard = OverloadGuard(1.0, 100.0)
    answers = [guard.admits(Saturation(utilisation, lag)) for utilisation, lag in seen]
    assert answers[-1] is admits
