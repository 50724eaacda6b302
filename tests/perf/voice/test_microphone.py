"""Where speech begins and ends in a recording."""

from __future__ import annotations

import numpy as np

from clients.realtime import RATE_HZ
from perf.voice.microphone import voiced_span

_TEN_MS = RATE_HZ // 100


def _stretch(milliseconds: int, level: int) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    count = milliseconds * RATE_HZ // 1_000
    return np.where(np.arange(count) % 2, level, -level).astype(np.int16)


def test_breath_and_clicks_before_the_first_word_are_no_speech() -> None:
    breath, click, word, fading = _stretch(300, 400), _stretch(20, 9_000), _stretch(500, 10_000), _stretch(100, 600)
    samples = np.concatenate([breath, click, breath, word, fading, _stretch(200, 50)])
    first, last = voiced_span(samples)
    assert first == 62 * _TEN_MS
    assert last == (62 + 50 + 10) * _TEN_MS


def test_silence_and_nothing_have_no_speech() -> None:
    assert voiced_span(np.zeros(RATE_HZ, np.int16)) == (0, RATE_HZ)
    assert voiced_span(np.zeros(10, np.int16)) == (0, 10)
