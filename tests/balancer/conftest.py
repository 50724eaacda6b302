"""The balancer's I/O tests run on asyncio, as the balancer does."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
