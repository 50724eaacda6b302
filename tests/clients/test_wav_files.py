"""WAV files of every allowed kind give the same sound; anything else is refused in one line."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from clients.wav_files import AudioFileError, read_wav

_TONE: NDArray[np.float64] = 0.5 * np.sin(np.arange(1600) * 2 * np.pi * 440 / 16_000)


def wav(
    sound: bytes, kind: int = 1, channels: int = 1, rate_hz: int = 16_000, bits: int = 16, *, announced: int | None = None
) -> bytes:
    align = channels * bits // 8
    header = struct.pack("<HHIIHH", kind, channels, rate_hz, rate_hz * align, align, bits)
    chunks = b"fmt " + struct.pack("<I", len(header)) + header + b"LIST" + struct.pack("<I", 3) + b"odd\0"
    chunks += b"data" + struct.pack("<I", len(sound) if announced is None else announced) + sound
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def encoded(bits: int, *, floating: bool = False) -> bytes:
    if floating:
        return _TONE.astype(f"<f{bits // 8}").tobytes()
    if bits == 8:
        return np.round(_TONE * 128 + 128).astype(np.uint8).tobytes()
    whole = np.round(_TONE * 2 ** (bits - 1)).astype("<i4")
    if bits == 24:
        return bytes(whole.view(np.uint8).reshape(-1, 4)[:, :3].tobytes())
    return bytes(whole.astype(f"<i{bits // 8}").tobytes())


@pytest.mark.parametrize(("kind", "bits", "tolerance"), [(1, 8, 150), (1, 16, 0), (1, 24, 0), (1, 32, 0), (3, 32, 0), (3, 64, 0)])
def test_every_sample_format(tmp_path: Path, kind: int, bits: int, tolerance: int) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(wav(encoded(bits, floating=kind == 3), kind, bits=bits))
    samples = read_wav(path, 16_000)
    assert samples.dtype == np.dtype(np.int16)
    assert np.abs(samples - np.round(_TONE * 32768)).max() <= tolerance


def test_the_extensible_header(tmp_path: Path) -> None:
    sound = encoded(16)
    header = struct.pack("<HHIIHHHHIH14s", 0xFFFE, 1, 16_000, 32_000, 2, 16, 22, 16, 4, 1, b"\0" * 14)
    path = tmp_path / "a.wav"
    body = b"fmt " + struct.pack("<I", len(header)) + header + b"data" + struct.pack("<I", len(sound)) + sound
    path.write_bytes(b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WAVE" + body)
    assert read_wav(path, 16_000).tobytes() == sound


def test_stereo_is_averaged_and_full_scale_is_not_wrapped(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(wav(np.array([100, 300, -32768, -32768], "<i2").tobytes(), channels=2))
    assert read_wav(path, 16_000).tolist() == [200, -32768]
    path.write_bytes(wav(np.array([1.5, -1.5], "<f4").tobytes(), 3, bits=32))
    assert read_wav(path, 16_000).tolist() == [32767, -32768]


@pytest.mark.models
def test_another_rate_is_resampled(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(wav(encoded(16)))
    samples = read_wav(path, 8_000)
    assert samples.size == 800
    assert np.abs(samples[100:-100] - _TONE[200:-200:2] * 32768).max() < 300


def test_a_stream_of_unknown_length_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(wav(encoded(16), announced=0xFFFF_FFFF))
    assert read_wav(path, 16_000).size == 1600


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "it is empty"),
        (b"ID3 not a wav at all, but long enough", "it is no WAV file"),
        (wav(b""), "it holds no sound"),
        (wav(b"\0"), "it holds no sound"),
        (wav(encoded(16), announced=9000), "cut short: 9000 bytes of sound are announced, 3200 are there"),
        (wav(encoded(16))[:40], "it holds no sound"),
        (wav(encoded(16))[:24], "its header is cut short"),
        (wav(encoded(16), kind=6, bits=8), "format 6 with 8 bits"),
        (wav(encoded(16), bits=12), "format 1 with 12 bits"),
        (wav(encoded(16), channels=6), "6 channels"),
        (wav(encoded(16), channels=0), "0 channels"),
        (wav(encoded(16), rate_hz=0), "0 samples a second"),
        (wav(np.array([np.nan], "<f4").tobytes(), 3, bits=32), "no numbers"),
        (b"RIFF\0\0\0\0WAVEdata\x02\0\0\0\0\0", "not stated before"),
    ],
)
def test_anything_else_is_refused_in_one_line(tmp_path: Path, data: bytes, problem: str) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(data)
    with pytest.raises(AudioFileError) as caught:
        read_wav(path, 16_000)
    message = str(caught.value)
    assert problem in message
    assert message.startswith(f"{path}: ")
    assert "allowed: WAV" in message
    assert "\n" not in message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(AudioFileError, match=r"absent\.wav: No such file"):
        read_wav(tmp_path / "absent.wav", 16_000)
    with pytest.raises(AudioFileError, match="Is a directory"):
        read_wav(tmp_path, 16_000)
