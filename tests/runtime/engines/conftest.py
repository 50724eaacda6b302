"""The real engines, loaded once for all tests that are marked `models`, and sound that is no speech."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import pytest

from runtime.engines.load import EngineSettings, load_engines
from runtime.engines.loaded import LoadedEngines
from runtime.engines.ports import INPUT_RATE_HZ, Samples


@pytest.fixture(scope="session")
def real_engines() -> Iterator[LoadedEngines]:
    engines = load_engines(EngineSettings(worker_threads=2))
    yield engines
    engines.close()


@pytest.fixture
def white_noise() -> Samples:
    """Two seconds, evenly distributed between -2,048 and 2,047, the same in every run."""
    bits = hashlib.shake_256(b"noise").digest(2 * 2 * INPUT_RATE_HZ)
    noise: Samples = np.frombuffer(bits, np.int16) >> 4
    return noise
