"""Long utterances are cut at quiet places, and nothing of them is lost."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.conversation.segments import split_at_quiet
from runtime.engines.ports import INPUT_RATE_HZ


def _noise(seconds: float, level: int = 8_000) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    count = int(seconds * INPUT_RATE_HZ)
    return np.where(np.arange(count) % 2, level, -level).astype(np.int16)


@pytest.mark.parametrize("seconds", [0.0, 0.5, 28.0, 28.1, 60.0, 119.9])
def test_the_pieces_are_the_whole_and_none_is_too_long(seconds: float) -> None:
    samples = _noise(seconds)
    pieces = split_at_quiet(samples)
    assert np.array_equal(np.concatenate(pieces), samples)
    assert all(len(piece) <= 28 * INPUT_RATE_HZ for piece in pieces)


def test_the_cut_lies_in_the_quiet() -> None:
    samples = np.concatenate((_noise(24), _noise(0.4, 0), _noise(20)))
    first, _ = split_at_quiet(samples)
    assert 24 * INPUT_RATE_HZ <= len(first) <= 24.4 * INPUT_RATE_HZ
