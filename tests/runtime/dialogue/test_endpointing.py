"""Endpointing: onsets, dips and ends of turns, on media time alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.dialogue.endpointing import Endpointer, OnsetRule, Paused, SpeechBegan, SpokeOn, TurnEnded
from runtime.dialogue.pauses import LearnedPauses
from runtime.dialogue.session_settings import ServerVad

_MS = 32.0


def _hear(ratios: list[float], silence_ms: int = 128, rule: OnsetRule = OnsetRule.SURE) -> list[tuple[int, object]]:
    endpointer = Endpointer(ServerVad(silence_duration_ms=silence_ms, is_adaptive=False), _MS)
    heard = ((frame, endpointer.hear(ratio, rule)) for frame, ratio in enumerate(ratios))
    return [(frame, endpoint) for frame, endpoint in heard if endpoint is not None]


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ([0.1] * 10, []),
        ([0.9] * 2 + [0.1] * 10, []),  # a click
        ([0.9] * 3 + [0.1] * 2, [(2, SpeechBegan(0))]),
        ([0.9] * 3 + [0.1] * 3, [(2, SpeechBegan(0)), (5, Paused(2))]),
        ([0.9] * 3 + [0.1] * 4, [(2, SpeechBegan(0)), (5, Paused(2)), (6, TurnEnded(2, 6))]),
        (
            [0.1, 0.9, 0.4, 0.9] + [0.0] * 4,
            [(3, SpeechBegan(1)), (6, Paused(3)), (7, TurnEnded(3, 7))],
        ),  # a dip within hysteresis
        ([0.9, 0.2, 0.9, 0.9, 0.9], [(4, SpeechBegan(2))]),  # a real gap starts the row anew
        (  # a pause
            [0.9] * 3 + [0.1] * 3 + [0.9] * 2 + [0.1] * 4,
            [(2, SpeechBegan(0)), (5, Paused(2)), (7, SpokeOn()), (10, Paused(7)), (11, TurnEnded(7, 11))],
        ),
        (  # a click in a pause
            [0.9] * 3 + [0.1] * 3 + [0.9] + [0.1] * 4,
            [(2, SpeechBegan(0)), (5, Paused(2)), (7, TurnEnded(2, 7))],
        ),
    ],
)
def test_table(ratios: list[float], expected: list[tuple[int, object]]) -> None:
    assert _hear(ratios) == expected


@pytest.mark.parametrize(
    ("ratios", "at"),
    [
        ([0.0, 0.95, 0.95], 2),  # two that are almost certain
        ([0.0, 0.6, 0.65, 0.65], 3),  # three that are likely
        ([0.0, 0.9, 0.3, 0.3, 0.9], None),  # a click, and another
        ([0.0, 1.0, 0.0, 0.0, 1.0], None),
    ],
)
def test_the_quick_rule_goes_by_evidence(ratios: list[float], at: int | None) -> None:
    heard = _hear(ratios, rule=OnsetRule.QUICK)
    assert [frame for frame, _ in heard] == ([] if at is None else [at])


def test_finish_ends_open_speech_and_only_that() -> None:
    endpointer = Endpointer(ServerVad(), _MS)
    assert endpointer.finish() is None
    for _ in range(5):
        endpointer.hear(0.9)
    assert endpointer.finish() == TurnEnded(4, 4)
    assert endpointer.finish() is None


@given(st.lists(st.floats(0.0, 1.0), max_size=200))
def test_onsets_and_ends_alternate(ratios: list[float]) -> None:
    kinds = [type(endpoint) for _, endpoint in _hear(ratios) if isinstance(endpoint, (SpeechBegan, TurnEnded))]
    assert kinds == [SpeechBegan, TurnEnded] * (len(kinds) // 2) + [SpeechBegan] * (len(kinds) % 2)


def test_a_pause_is_told_then_its_end_or_the_turns() -> None:
    heard = _hear([0.9] * 3 + [0.0] * 8 + [0.9] * 4 + [0.0] * 12, silence_ms=320)
    assert heard == [
        (2, SpeechBegan(0)),
        (5, Paused(2)),
        (12, SpokeOn()),
        (17, Paused(14)),
        (24, TurnEnded(14, 24)),
    ]


def test_a_hint_stretches_the_present_pause_only() -> None:
    endpointer = Endpointer(ServerVad(silence_duration_ms=320), _MS)
    ends = []
    for factor in (2.0, 1.0):
        for frame, ratio in enumerate([0.9] * 3 + [0.0] * 30):
            endpoint = endpointer.hear(ratio)
            if isinstance(endpoint, Paused):
                endpointer.hint(factor)
            if isinstance(endpoint, TurnEnded):
                ends.append(frame - 2)
    assert ends == [16, 8]  # 0.8 times 2 is as long as is allowed


def test_a_client_that_fixes_the_silence_gets_just_that() -> None:
    endpointer = Endpointer(ServerVad(silence_duration_ms=320, is_adaptive=False), _MS)
    for pause_ms in [900.0] * 20:
        endpointer.pauses.paused(pause_ms)
    assert endpointer.silence_ms() == 320


def test_voice_over_the_agent_is_counted_without_its_pauses() -> None:
    endpointer = Endpointer(ServerVad(), _MS)
    for ratio in [0.9] * 4 + [0.0] * 5 + [0.9] * 4:
        endpointer.hear(ratio)
    assert endpointer.voiced_ms == 8 * _MS


def test_a_turn_that_was_cut_off_is_learned_from() -> None:
    endpointer = Endpointer(ServerVad(silence_duration_ms=320), _MS)
    for ratio in [0.9] * 3 + [0.0] * 13 + [0.9] * 3:
        endpointer.hear(ratio)
    endpointer.was_cut_off(16)
    assert endpointer.silence_ms() == pytest.approx(13 * _MS * 1.1)


def test_what_was_forgotten_is_no_evidence() -> None:
    endpointer = Endpointer(ServerVad(), _MS)
    for _ in range(3):
        endpointer.hear(0.95)
    endpointer.forget()
    assert endpointer.hear(0.6, OnsetRule.QUICK) is None


def test_frames_that_pass_unheard_count() -> None:
    endpointer = Endpointer(ServerVad(), _MS)
    for _ in range(5):
        endpointer.pass_over()
    assert [endpointer.hear(0.9) for _ in range(3)][-1] == SpeechBegan(5)


def test_a_shorter_gap_does_not_shorten_what_a_longer_one_taught() -> None:
    pauses = LearnedPauses()
    pauses.was_cut_off(600.0)
    pauses.was_cut_off(150.0)
    assert pauses.silence_ms(500.0) == pytest.approx(600.0 * 1.1 * 7 / 8)
