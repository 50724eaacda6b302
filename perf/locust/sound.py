"""The two sounds that a simulated caller makes: a tone that counts as speech, and silence. PCM16, little-endian, mono."""

from __future__ import annotations

import numpy as np

__all__ = ["silent_frame", "voiced_frame"]

_PEAK = 6_000
"""Far above the 500 of root mean square at which the synthetic detector hears speech."""
_TONE_HZ = 200


def voiced_frame(rate_hz: int, frame_ms: int) -> bytes:
    """`frame_ms` of a 200 Hz tone."""
    angle = np.arange(rate_hz * frame_ms // 1000) * (2 * np.pi * _TONE_HZ / rate_hz)
    return bytes((np.sin(angle) * _PEAK).astype("<i2").tobytes())


def silent_frame(rate_hz: int, frame_ms: int) -> bytes:
    return bytes(2 * (rate_hz * frame_ms // 1000))
