"""Endpointing: onsets, dips and ends of turns, on media time alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.dialogue.endpointing import Endpointer, SpeechBegan, TurnEnded
from runtime.dialogue.session_settings import ServerVad

_MS = 32.0


def _hear(ratios: list[float], silence_ms: int = 128, onset_ms: float = 96.0) -> list[tuple[int, object]]:
    endpointer = Endpointer(ServerVad(silence_duration_ms=silence_ms), _MS)
    heard = ((frame, endpointer.hear(ratio, onset_ms)) for frame, ratio in enumerate(ratios))
    return [(frame, endpoint) for frame, endpoint in heard if endpoint is not None]


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ([0.1] * 10, []),
        ([0.9] * 2 + [0.1] * 10, []),  # a click
        ([0.9] * 3 + [0.1] * 3, [(2, SpeechBegan(0))]),
        ([0.9] * 3 + [0.1] * 4, [(2, SpeechBegan(0)), (6, TurnEnded(2, 6))]),
        ([0.1, 0.9, 0.4, 0.9] + [0.0] * 4, [(3, SpeechBegan(1)), (7, TurnEnded(3, 7))]),  # a dip within hysteresis
        ([0.9, 0.2, 0.9, 0.9, 0.9], [(4, SpeechBegan(2))]),  # a real gap starts the row anew
        ([0.9] * 3 + [0.1] * 3 + [0.9] + [0.1] * 4, [(2, SpeechBegan(0)), (10, TurnEnded(6, 10))]),  # a pause
    ],
)
def test_table(ratios: list[float], expected: list[tuple[int, object]]) -> None:
    assert _hear(ratios) == expected


def test_a_longer_onset_is_asked_for_while_the_agent_speaks() -> None:
    ratios = [0.9] * 4 + [0.0] * 10
    assert _hear(ratios, onset_ms=192.0) == []
    assert _hear(ratios, onset_ms=96.0)


def test_finish_ends_open_speech_and_only_that() -> None:
    endpointer = Endpointer(ServerVad(), _MS)
    assert endpointer.finish() is None
    for _ in range(5):
        endpointer.hear(0.9, 96.0)
    assert endpointer.finish() == TurnEnded(4, 4)
    assert endpointer.finish() is None


@given(st.lists(st.floats(0.0, 1.0), max_size=200))
def test_onsets_and_ends_alternate(ratios: list[float]) -> None:
    kinds = [type(endpoint) for _, endpoint in _hear(ratios)]
    assert kinds == [SpeechBegan, TurnEnded] * (len(kinds) // 2) + [SpeechBegan] * (len(kinds) % 2)
