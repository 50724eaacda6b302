"""The real engines, loaded once for all tests that are marked `models`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runtime.engines.load import EngineSettings, load_engines
from runtime.engines.loaded import LoadedEngines


@pytest.fixture(scope="session")
def real_engines() -> Iterator[LoadedEngines]:
    engines = load_engines(EngineSettings(worker_threads=2))
    yield engines
    engines.close()


@pytest.fixture
def anyio_backend() -> object:
    return ("asyncio", {"use_uvloop": True})
