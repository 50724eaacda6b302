"""What every test shares: one backend for asynchronous tests, and patience that does not depend on the machine."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """The product runs on asyncio (grpc and uvicorn know no other)."""
    return "asyncio"
