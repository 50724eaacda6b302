"""Learned pauses: the wait follows the caller, within bounds, and a caller who was cut off is waited for at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.dialogue.pauses import LEAST_FACTOR, MOST_FACTOR, LearnedPauses


def _after(*pauses_ms: float) -> LearnedPauses:
    pauses = LearnedPauses()
    for pause_ms in pauses_ms:
        pauses.paused(pause_ms)
    return pauses


def test_nothing_is_concluded_from_little() -> None:
    assert _after().silence_ms(500) == 400
    assert _after(2_000, 2_000).silence_ms(500) == 400


def test_a_quick_speaker_is_answered_sooner_and_a_slow_one_later() -> None:
    assert _after(*[130] * 20).silence_ms(500) == LEAST_FACTOR * 500
    assert _after(*[420] * 20).silence_ms(500) == pytest.approx(420, abs=20)
    assert _after(*[900] * 20).silence_ms(500) == MOST_FACTOR * 500


def test_who_was_cut_off_is_waited_for_at_once_and_that_fades() -> None:
    pauses = _after(*[130] * 20)
    pauses.was_cut_off(600)
    assert pauses.silence_ms(500) == pytest.approx(660)
    for _ in range(40):
        pauses.paused(130)
    assert pauses.silence_ms(500) == LEAST_FACTOR * 500


def test_dips_and_absences_are_no_pauses() -> None:
    assert _after(*[64] * 20).silence_ms(500) == 400
    assert _after(*[8_000] * 20).silence_ms(500) == 400


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 20_000)), max_size=60), st.floats(100, 5_000))
def test_the_wait_stays_within_its_bounds(pauses: list[tuple[bool, float]], configured_ms: float) -> None:
    learned = LearnedPauses()
    for is_cut_off, pause_ms in pauses:
        (learned.was_cut_off if is_cut_off else learned.paused)(pause_ms)
    assert LEAST_FACTOR * configured_ms <= learned.silence_ms(configured_ms) <= MOST_FACTOR * configured_ms
    assert LearnedPauses(*learned.state).silence_ms(configured_ms) == learned.silence_ms(configured_ms)
