"""The log-mel spectrogram that Whisper was trained on, in numpy.

Values as in OpenAI's reference (whisper/audio.py, MIT): 25 ms Hann windows every 10 ms, 80 triangular mel bands on the Slaney
scale with area normalisation, log10 clamped to 8 below the loudest value, then (x + 4) / 4.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from runtime.engines.ports import INPUT_RATE_HZ, Samples

__all__ = ["FRAMES_PER_SECOND", "MEL_BANDS", "LogMel"]

MEL_BANDS: Final = 80
FRAMES_PER_SECOND: Final = 100
_WINDOW: Final = 400
_HOP: Final = INPUT_RATE_HZ // FRAMES_PER_SECOND
_BINS: Final = _WINDOW // 2 + 1
_FLOOR: Final = 1e-10
_RANGE: Final = 8.0

_Floats = NDArray[np.float32]


class LogMel:
    """Holds the window and the filters (70 kB); may be used by several threads at once."""

    def __init__(self) -> None:
        self._window: _Floats = np.hanning(_WINDOW + 1)[:-1].astype(np.float32)
        # A band sums at most 20 of the 201 bins, so only those are kept: bin numbers and weights of all bands in a row, and where
        # each band starts. A matrix product would be as quick but wakes the BLAS threads, which spin on for 90 ms of CPU a call.
        filters = _mel_filters()
        bands, self._bins = np.nonzero(filters)
        self._weights = filters[bands, self._bins]
        self._starts = np.searchsorted(bands, np.arange(MEL_BANDS))

    def features(self, samples: Samples, frame_count: int) -> _Floats:
        """The spectrogram of `samples` at 16 kHz followed by silence, shape (1, 80, `frame_count`), C-contiguous.

        What lies beyond `frame_count` frames of 10 ms is cut off. Silence is filled in, not computed, so the cost depends on the
        length of the samples.
        """
        return self.features_of(np.multiply(samples, np.float32(1 / 32768), dtype=np.float32), frame_count)

    def features_of(self, waveform: _Floats, frame_count: int) -> _Floats:
        """The same of a waveform of any scale."""
        sound = np.zeros(_WINDOW + max(waveform.size, 1) + _WINDOW, np.float32)
        sound[_WINDOW // 2 : _WINDOW // 2 + waveform.size] = waveform
        # Frames are centred: the reference mirrors half a window in front of the first sample.
        front = sound[_WINDOW // 2 + 1 : _WINDOW + 1]
        sound[: _WINDOW // 2] = front[::-1]
        count = min(frame_count, (sound.size - _WINDOW) // _HOP + 1)
        frames = np.lib.stride_tricks.sliding_window_view(sound, _WINDOW)[::_HOP][:count]
        power = np.square(np.abs(np.fft.rfft(frames * self._window, axis=1)))
        mels = np.add.reduceat(power[:, self._bins] * self._weights, self._starts, axis=1)
        out = np.full((1, MEL_BANDS, frame_count), np.log10(_FLOOR), np.float32)
        out[0, :, :count] = np.log10(np.maximum(mels, _FLOOR)).T
        np.maximum(out, out.max() - _RANGE, out=out)
        return (out + np.float32(4)) / np.float32(4)


def _mel_filters() -> _Floats:
    """Triangles, shape (80, 201), between 0 Hz and 8 kHz."""
    frequencies = np.linspace(0, INPUT_RATE_HZ / 2, _BINS)
    corners = _mel_to_hz(np.linspace(0, _hz_to_mel(INPUT_RATE_HZ / 2), MEL_BANDS + 2))
    widths = np.diff(corners)
    distance = corners[:, None] - frequencies[None, :]
    rising = -distance[:-2] / widths[:-1, None]
    falling = distance[2:] / widths[1:, None]
    areas = 2.0 / (corners[2:] - corners[:-2])
    filters: _Floats = (np.maximum(0, np.minimum(rising, falling)) * areas[:, None]).astype(np.float32)
    return filters


# The Slaney mel scale (Auditory Toolbox, 1998): linear below 1 kHz with 200/3 Hz a mel, above it 27 mels for a factor of 6.4.
_HZ_PER_MEL: Final = 200 / 3
_KNEE_HZ: Final = 1_000.0
_KNEE_MEL: Final = _KNEE_HZ / _HZ_PER_MEL
_LOG_STEP: Final = np.log(6.4) / 27


def _hz_to_mel(hz: float) -> float:
    return float(hz / _HZ_PER_MEL if hz < _KNEE_HZ else _KNEE_MEL + np.log(hz / _KNEE_HZ) / _LOG_STEP)


def _mel_to_hz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(mel < _KNEE_MEL, mel * _HZ_PER_MEL, _KNEE_HZ * np.exp(_LOG_STEP * (mel - _KNEE_MEL)))
