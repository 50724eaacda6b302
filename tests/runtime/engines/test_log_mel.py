"""The spectrogram: shape, normalisation, and that silence is the same whether computed or filled in."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.engines.log_mel import MEL_BANDS, LogMel


def tone(hz: float, count: int = 16_000) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    return (10_000 * np.sin(np.arange(count) * 2 * np.pi * hz / 16_000)).astype(np.int16)


def test_shape_type_and_range() -> None:
    features = LogMel().features(tone(440), 1400)
    assert features.shape == (1, MEL_BANDS, 1400)
    assert features.dtype == np.dtype(np.float32)
    assert features.flags.c_contiguous
    assert features.max() - features.min() == pytest.approx(2.0)  # a range of 8 decades, divided by 4


@pytest.mark.parametrize("hz", [200, 440, 1000, 3000, 7000])
def test_a_tone_is_in_its_band(hz: int) -> None:
    """Slaney mel scale, 80 bands up to 8 kHz (45.245 mel): the band whose centre is nearest."""
    mel = hz * 3 / 200 if hz < 1000 else 15 + np.log(hz / 1000) * 27 / np.log(6.4)
    expected = mel / 45.245 * 81 - 1
    loudest = int(LogMel().features(tone(hz), 100)[0, :, 50].argmax())
    assert abs(loudest - expected) <= 1


def test_silence_filled_in_is_silence_computed() -> None:
    speech = tone(300, 8_000)
    padded = np.concatenate([speech, np.zeros(24_000, np.int16)])
    assert np.allclose(LogMel().features(speech, 200), LogMel().features(padded, 200), atol=1e-6)


def test_what_is_beyond_the_frames_is_cut_and_nothing_is_fine() -> None:
    assert LogMel().features(tone(300, 48_000), 100).shape == (1, MEL_BANDS, 100)
    assert np.ptp(LogMel().features(np.zeros(0, np.int16), 100)) < 1e-6
