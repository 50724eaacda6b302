"""Whether what an agent's code has raised is a fault of that code."""

from __future__ import annotations

import math

import anyio

__all__ = ["is_fault"]


def is_fault(error: BaseException) -> bool:
    """False for our own cancel, and for what ends the process.

    A cancel that nobody of ours has asked for is a fault: a library that cancels what an agent waits for raises it there.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(is_fault(each) for each in error.exceptions)
    if isinstance(error, anyio.get_cancelled_exc_class()):
        return anyio.current_effective_deadline() != -math.inf
    return isinstance(error, Exception)
