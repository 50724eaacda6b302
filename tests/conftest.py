"""What every test shares: one backend for asynchronous tests, and patience that does not depend on the machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TypeVarTuple

import hypothesis
import pytest
import uvloop

hypothesis.settings.register_profile("shared machine", deadline=None)
hypothesis.settings.load_profile("shared machine")


Ts = TypeVarTuple("Ts")


class _LoopOfOneTest(uvloop.Loop):
    """As uvloop's, but what comes from another thread after its end is dropped in silence, as by a process that has ended.

    The product has one loop for its whole life; here each test has its own, and grpc.aio hands the late end of a server that
    a test has stopped to a loop that is closed by then, which would fail whichever test runs at that moment.
    """

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if self.is_closed():
            return asyncio.Handle(callback, args, self)
        return super().call_soon_threadsafe(callback, *args, context=context)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """The product runs on asyncio (grpc and uvicorn know no other), on uvloop."""
    return "asyncio", {"loop_factory": _LoopOfOneTest}
