"""What is spoken in the demo: recordings with their reference texts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clients.realtime import RATE_HZ
from clients.wav_files import AudioFileError, read_wav

__all__ = ["OWN_RECORDINGS", "Recording", "read_recordings"]

OWN_RECORDINGS = Path(__file__).parent / "recordings"
"""Human speech, with its sources in NOTICE.md."""


@dataclass(frozen=True, slots=True)
class Recording:
    """`samples` at the wire's rate; `reference`: what is said."""

    name: str
    samples: NDArray[np.int16]
    reference: str


def read_recordings(folder: Path) -> list[Recording]:
    """Every NAME.wav of a folder with its NAME.txt, by name. Raises AudioFileError, naming the file and what is missing."""
    if not folder.is_dir():
        raise AudioFileError(folder, "it is no folder", "allowed: a folder with NAME.wav and NAME.txt files")
    files = sorted(folder.glob("*.wav"))
    if not files:
        raise AudioFileError(folder, "it holds no .wav file", "allowed: a folder with NAME.wav and NAME.txt files")
    return [Recording(file.stem, read_wav(file, RATE_HZ), _reference(file.with_suffix(".txt"))) for file in files]


def _reference(file: Path) -> str:
    try:
        text = " ".join(file.read_text(encoding="utf-8").split())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise AudioFileError(file, str(reason), "allowed: the reference text beside each NAME.wav, in UTF-8") from error
    if not text:
        raise AudioFileError(file, "it is empty", "allowed: the words that NAME.wav says")
    return text
