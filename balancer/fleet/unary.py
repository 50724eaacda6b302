"""Waits for a gRPC answer in a way that may be cancelled.

Awaiting a grpc.aio call directly is not: cancelled there, it answers now and then with a CancelledError of its own making, which
no anyio scope takes for its own, so that it goes through every boundary up to the task group of the whole front.
"""

from __future__ import annotations

from typing import TypeVar

import anyio
import grpc

__all__ = ["answer_of"]

Question = TypeVar("Question")
Answer = TypeVar("Answer")


async def answer_of(call: grpc.aio.UnaryUnaryCall[Question, Answer]) -> Answer:
    """The call's answer. Raises AioRpcError; cancelled, it cancels the call."""
    done = anyio.Event()
    call.add_done_callback(lambda _: done.set())
    try:
        await done.wait()
    except BaseException:
        call.cancel()
        raise
    scope = anyio.CancelScope(shield=True)  # it is done: this takes no time
    with scope:
        answer = await call
    return answer  # noqa: RET504  # mypy takes a cancel scope for something that may swallow the return
