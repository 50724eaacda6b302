"""What every test shares: one backend for asynchronous tests, and patience that does not depend on the machine."""

from __future__ import annotations

import hypothesis
import pytest

hypothesis.settings.register_profile("shared machine", deadline=None)
hypothesis.settings.load_profile("shared machine")


@pytest.fixture
def anyio_backend() -> str:
    """The product runs on asyncio (grpc and uvicorn know no other)."""
    return "asyncio"
