"""Audio between the wire and the house: inside it is PCM16 little-endian mono at the wire's own rate."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from runtime.dialogue.session_settings import AudioEncoding, AudioFormat

__all__ = ["BadAudio", "from_wire", "to_wire"]

_BIAS: Final = 0x84
_CLIP: Final = 32_635


class BadAudio(ValueError):
    """The bytes are no audio of the negotiated format; the text names what was expected."""


def from_wire(data: bytes, audio_format: AudioFormat) -> bytes:
    """Wire bytes to PCM16. Raises BadAudio for a part of a sample."""
    match audio_format.encoding:
        case AudioEncoding.PCM16:
            if len(data) % 2:
                raise BadAudio(f"{len(data)} bytes are no whole samples; expected {audio_format}, 2 bytes a sample")
            return data
        case AudioEncoding.MULAW:
            return _mulaw_decoded()[np.frombuffer(data, np.uint8)].tobytes()
        case AudioEncoding.ALAW:
            return _alaw_decoded()[np.frombuffer(data, np.uint8)].tobytes()


def to_wire(pcm: bytes, audio_format: AudioFormat) -> bytes:
    """PCM16 to wire bytes."""
    match audio_format.encoding:
        case AudioEncoding.PCM16:
            return pcm
        case AudioEncoding.MULAW:
            return _encoded(pcm, _mulaw_encoded())
        case AudioEncoding.ALAW:
            return _encoded(pcm, _alaw_encoded())


def _encoded(pcm: bytes, table: NDArray[np.uint8]) -> bytes:
    return table[np.frombuffer(pcm, "<i2").astype(np.int32) + 32_768].tobytes()


@cache
def _mulaw_decoded() -> NDArray[np.int16]:
    """ITU-T G.711 section 3.2: the value of each of the 256 mu-law codes, in 16-bit steps."""
    code = ~np.arange(256, dtype=np.int32) & 0xFF
    magnitude = (((code & 0x0F) << 3) + _BIAS) << ((code & 0x70) >> 4)
    return np.where(code & 0x80, _BIAS - magnitude, magnitude - _BIAS).astype(np.int16)


@cache
def _mulaw_encoded() -> NDArray[np.uint8]:
    """The mu-law code of each 16-bit value, index value + 32768."""
    value = np.arange(-32_768, 32_768, dtype=np.int32)
    magnitude = np.minimum(np.abs(value), _CLIP) + _BIAS
    exponent = np.floor(np.log2(magnitude)).astype(np.int32) - 7
    mantissa = (magnitude >> (exponent + 3)) & 0x0F
    sign = np.where(value < 0, 0x80, 0)
    codes: NDArray[np.uint8] = (~(sign | (exponent << 4) | mantissa) & 0xFF).astype(np.uint8)
    return codes


@cache
def _alaw_decoded() -> NDArray[np.int16]:
    """ITU-T G.711 section 3.1: the value of each of the 256 A-law codes, in 16-bit steps."""
    code = np.arange(256, dtype=np.int32) ^ 0x55
    segment = (code & 0x70) >> 4
    base = ((code & 0x0F) << 4) + 8
    magnitude = np.where(segment == 0, base, (base + 0x100) << np.maximum(segment - 1, 0))
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.int16)


@cache
def _alaw_encoded() -> NDArray[np.uint8]:
    """The A-law code of each 16-bit value, index value + 32768: the code whose segment and step hold the value."""
    value = np.arange(-32_768, 32_768, dtype=np.int32)
    is_positive = value >= 0
    magnitude = np.minimum(np.where(is_positive, value, -value - 1), 32_767)
    segment = np.maximum(np.floor(np.log2(np.maximum(magnitude, 1))).astype(np.int32) - 7, 0)
    step = np.where(segment == 0, magnitude >> 4, magnitude >> (segment + 3)) & 0x0F
    code = (segment << 4) | step
    codes: NDArray[np.uint8] = ((code | np.where(is_positive, 0x80, 0)) ^ 0x55).astype(np.uint8)
    return codes
