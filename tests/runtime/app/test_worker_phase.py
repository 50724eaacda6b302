"""The table of phases in every combination, and how long a process is waited for in each."""

from __future__ import annotations

from itertools import product

import pytest

from runtime.app.worker_phase import NEXT, Bounds, Happening, Patience, Phase

_BOUNDS = Bounds(start_s=60.0, silence_s=10.0, leave_s=30.0)


def test_every_phase_knows_what_follows_and_what_changes_nothing() -> None:
    table = {
        phase: [NEXT.get((phase, happening), phase).name for happening in Happening] for phase in Phase
    }  # by: STARTED, SAID_READY, ASKED, ENDED
    assert table == {
        Phase.DOWN: ["STARTING", "DOWN", "DOWN", "DOWN"],
        Phase.STARTING: ["STARTING", "READY", "LEAVING", "DOWN"],
        Phase.READY: ["READY", "READY", "LEAVING", "DOWN"],
        Phase.LEAVING: ["LEAVING", "LEAVING", "LEAVING", "DOWN"],
    }
    assert set(NEXT) <= set(product(Phase, Happening))


def _looks_until_given_up(patience: Patience, elapsed_s: float = 1.0) -> tuple[int, str]:
    for look in range(1, 1_000):
        cause = patience.passed(elapsed_s)
        if cause:
            return look, cause
    return 0, ""


@pytest.mark.parametrize(
    ("path", "looks", "words"),
    [
        ([Phase.STARTING], 61, "not ready within 60 s"),
        ([Phase.STARTING, Phase.LEAVING], 31, "not left within 30 s"),
        ([Phase.STARTING, Phase.READY], 11, "said nothing for 10 s"),
        ([Phase.STARTING, Phase.READY, Phase.LEAVING], 11, "said nothing for 10 s"),
    ],
)
def test_each_phase_has_its_bound(path: list[Phase], looks: int, words: str) -> None:
    patience = Patience(_BOUNDS)
    for phase in path:
        patience.passed(1.0)
        patience.entered(phase)
    given_up, cause = _looks_until_given_up(patience)
    assert given_up == looks
    assert words in cause


def test_who_beats_is_kept_for_ever_and_still_has_to_leave_in_time() -> None:
    patience = Patience(_BOUNDS)
    patience.entered(Phase.READY)
    for _ in range(1_000):
        assert patience.passed(1.0) == ""
        patience.heard()
    patience.entered(Phase.LEAVING)
    for _ in range(30):
        assert patience.passed(1.0) == ""
        patience.heard()
    assert "not left" in patience.passed(1.0)


def test_silence_may_be_allowed_for_ever() -> None:
    patience = Patience(Bounds(60.0, 0.0, 30.0))
    patience.entered(Phase.READY)
    assert _looks_until_given_up(patience) == (0, "")


def test_time_in_which_the_supervisor_stood_still_counts_a_second() -> None:
    """A suspended machine, a frozen group: the worker stood still too, and its beats come after ours."""
    patience = Patience(_BOUNDS)
    patience.entered(Phase.READY)
    assert patience.passed(86_400.0) == ""
    assert _looks_until_given_up(patience, elapsed_s=3_600.0)[0] == 10
