"""Recognises an utterance of any length: one that is longer than a recogniser takes is cut at its quietest places."""

from __future__ import annotations

from typing import Final

import numpy as np

from runtime.engines.ports import INPUT_RATE_HZ, Samples, SpeechRecognizer, Urgency

__all__ = ["SHORTEST_SAMPLES", "recognize", "split_at_quiet"]

SHORTEST_SAMPLES: Final = INPUT_RATE_HZ // 10
"""Less than a tenth of a second holds no word."""
_LONGEST: Final = 28 * INPUT_RATE_HZ
_SEARCH: Final = 8 * INPUT_RATE_HZ
_STEP: Final = INPUT_RATE_HZ // 10


def split_at_quiet(samples: Samples) -> list[Samples]:
    """Pieces of at most 28 s whose concatenation is the input; each cut lies in the quietest 100 ms of a piece's last 8 s."""
    pieces: list[Samples] = []
    rest = samples
    while len(rest) > _LONGEST:
        region = rest[_LONGEST - _SEARCH : _LONGEST].astype(np.float32)
        energy = (region.reshape(-1, _STEP) ** 2).sum(axis=1)
        cut = _LONGEST - _SEARCH + int(energy.argmin()) * _STEP + _STEP // 2
        pieces.append(rest[:cut])
        rest = rest[cut:]
    pieces.append(rest)
    return pieces


async def recognize(recognizer: SpeechRecognizer, samples: Samples, urgency: Urgency | None = None) -> str:
    """The words of a whole utterance at `INPUT_RATE_HZ`. Raises what the recogniser raises."""
    texts: list[str] = []
    for piece in split_at_quiet(samples):
        if len(piece) >= SHORTEST_SAMPLES:
            texts.append((await recognizer.recognize(np.ascontiguousarray(piece), urgency)).text)
    return " ".join(text for text in texts if text)
