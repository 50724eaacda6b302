"""What an agent's code raises: its faults, and our own cancels."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from runtime.conversation.author_faults import is_fault

pytestmark = pytest.mark.anyio


async def test_what_the_code_raises_is_its_fault() -> None:
    assert is_fault(ValueError())
    assert is_fault(ExceptionGroup("both", [ValueError(), TypeError()]))
    assert is_fault(asyncio.CancelledError())  # nobody of ours has cancelled
    assert is_fault(BaseExceptionGroup("both", [asyncio.CancelledError(), TypeError()]))


async def test_what_ends_the_process_is_none() -> None:
    assert not is_fault(KeyboardInterrupt())
    assert not is_fault(BaseExceptionGroup("both", [ValueError(), SystemExit()]))


async def test_our_own_cancel_is_none() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        faults: list[bool] = []
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError as cancel:
            faults = [is_fault(cancel), is_fault(BaseExceptionGroup("both", [cancel, TypeError()]))]
            raise
    assert faults == [False, False]
    assert is_fault(asyncio.CancelledError())
