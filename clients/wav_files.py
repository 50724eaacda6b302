"""Reads WAV files of any usual kind as 16-bit mono samples, and writes such samples.

Python's own `wave` module knows neither float samples nor the extensible header that many editors write.
"""

from __future__ import annotations

import struct
import wave
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import soxr
from numpy.typing import NDArray

__all__ = ["AudioFileError", "read_wav", "write_wav"]

_ALLOWED: Final = "allowed: WAV, PCM 8/16/24/32 bit or float 32/64 bit, mono or stereo, 8,000-192,000 Hz, at most 1 hour"
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_TO_THE_END: Final = 0xFFFF_FFFF
"""The length that programs write which stream into a pipe and cannot know it."""
_LONGEST_S: Final = 3_600


class AudioFileError(ValueError):
    """An audio file cannot be used. One line: the file, the problem, what is allowed.

    Attributes:
        path: the file.
        problem: what is wrong with it.
    """

    def __init__(self, path: Path, problem: str, allowed: str = _ALLOWED) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}; {allowed}")


@dataclass(frozen=True, slots=True)
class _Format:
    kind: int
    channels: int
    rate_hz: int
    bits: int

    @property
    def frame_bytes(self) -> int:
        return self.channels * self.bits // 8


def read_wav(path: Path, rate_hz: int) -> NDArray[np.int16]:
    """The file's sound, mono (stereo is averaged), at `rate_hz`, as 16-bit samples; at least one.

    Reads the whole file. Raises AudioFileError where the file is
    missing, no WAV, of another kind, cut short or without sound.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise AudioFileError(path, error.strerror or type(error).__name__) from error
    layout, sound = _chunks(path, data)
    mono = _decode(layout, sound).reshape(-1, layout.channels).mean(axis=1, dtype=np.float32)
    if not np.isfinite(mono).all():
        raise AudioFileError(path, "it holds samples that are no numbers")
    if layout.rate_hz != rate_hz:
        mono = soxr.resample(mono, layout.rate_hz, rate_hz)
    if not mono.size:
        raise AudioFileError(path, "it is too short to hold a sample")
    samples: NDArray[np.int16] = np.clip(np.round(mono * 32768), -32768, 32767).astype(np.int16)
    return samples


def write_wav(path: Path, samples: NDArray[np.int16], rate_hz: int) -> None:
    """Writes 16-bit mono. Raises AudioFileError where the file cannot be written."""
    try:
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate_hz)
            file.writeframes(np.ascontiguousarray(samples, "<i2").tobytes())
    except OSError as error:
        raise AudioFileError(path, error.strerror or type(error).__name__, "allowed: a path that can be written") from error


def _chunks(path: Path, data: bytes) -> tuple[_Format, bytes]:
    if len(data) < 12 or data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise AudioFileError(path, "it is empty" if not data else "it is no WAV file")
    layout: _Format | None = None
    at = 12
    while at + 8 <= len(data):
        name, length = data[at : at + 4], struct.unpack_from("<I", data, at + 4)[0]
        body = data[at + 8 : at + 8 + length]
        if name == b"fmt ":
            layout = _read_format(path, body)
        elif name == b"data":
            if layout is None:
                raise AudioFileError(path, "its format is not stated before its sound")
            if len(body) < length != _TO_THE_END:
                raise AudioFileError(path, f"it is cut short: {length} bytes of sound are announced, {len(body)} are there")
            whole = len(body) - len(body) % layout.frame_bytes
            if not whole:
                raise AudioFileError(path, "it holds no sound")
            if whole > _LONGEST_S * layout.rate_hz * layout.frame_bytes:
                raise AudioFileError(path, "it is too long")
            return layout, body[:whole]
        at += 8 + length + length % 2
    raise AudioFileError(path, "it holds no sound")


def _read_format(path: Path, body: bytes) -> _Format:
    if len(body) < 16:
        raise AudioFileError(path, "its header is cut short")
    kind, channels, rate_hz, _, _, bits = struct.unpack_from("<HHIIHH", body)
    if kind == _EXTENSIBLE and len(body) >= 26:
        kind = struct.unpack_from("<H", body, 24)[0]  # the first two bytes of the sub-format's GUID
    if (kind, bits) not in {(_PCM, 8), (_PCM, 16), (_PCM, 24), (_PCM, 32), (_FLOAT, 32), (_FLOAT, 64)}:
        raise AudioFileError(path, f"it has format {kind} with {bits} bits a sample")
    if channels not in (1, 2):
        raise AudioFileError(path, f"it has {channels} channels")
    if not 8_000 <= rate_hz <= 192_000:
        raise AudioFileError(path, f"it has {rate_hz} samples a second")
    return _Format(kind, channels, rate_hz, bits)


def _decode(layout: _Format, sound: bytes) -> NDArray[np.float32]:
    """Interleaved samples of full scale 1."""
    if layout.kind == _FLOAT:
        return np.frombuffer(sound, f"<f{layout.bits // 8}").astype(np.float32)
    if layout.bits == 8:  # the only unsigned one
        return (np.frombuffer(sound, np.uint8).astype(np.float32) - np.float32(128)) / np.float32(128)
    if layout.bits == 24:
        parts = np.frombuffer(sound, np.uint8).reshape(-1, 3)
        padded = np.zeros((len(parts), 4), np.uint8)
        padded[:, 1:] = parts
        return (padded.view("<i4")[:, 0] / np.float64(2**31)).astype(np.float32)
    full_scale = np.float64(2 ** (layout.bits - 1))
    return (np.frombuffer(sound, f"<i{layout.bits // 8}") / full_scale).astype(np.float32)
