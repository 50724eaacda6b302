"""The balancer's I/O tests run on uvloop, as the balancer does in production."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": sys.platform != "win32"}
