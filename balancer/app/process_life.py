"""What every role of the balancer's program does alike: run its parts, serve its operators, and notice that it is to stop."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import anyio
import anyio.lowlevel
import uvicorn
from starlette.applications import Starlette

from balancer.app.listeners import bracketed
from balancer.dashboard.impatient_protocol import ImpatientProtocol

__all__ = ["GOODBYE_S", "address_of", "cause_to_stop", "for_ever", "operate"]

GOODBYE_S: Final = 10.0
"""What a gRPC port keeps its calls beyond the drain, whose end they are to be told: longer than any goodbye takes."""


async def cause_to_stop(signals: AsyncIterator[signal.Signals], leave_with_stdin: bool) -> str:
    """The first of: a signal; where we are told to mind it, the end of standard input, which whoever started us holds open."""
    causes: list[str] = []
    async with anyio.create_task_group() as waiting:

        async def wait_for_signal() -> None:
            async for number in signals:
                causes.append(signal.Signals(number).name)
                waiting.cancel_scope.cancel()
                return

        waiting.start_soon(wait_for_signal)
        if leave_with_stdin:
            await anyio.wait_readable(sys.stdin)
            causes.append("standard input has ended")
            waiting.cancel_scope.cancel()
    return causes[0]


async def for_ever(what: str, run: Callable[..., Awaitable[None]], *arguments: object) -> None:
    """A part that ends while the balancer serves takes the balancer with it: a process that looks alive and is not is worse."""
    await run(*arguments)
    await anyio.lowlevel.checkpoint()  # raises where we are being stopped, which is how these parts end
    raise RuntimeError(f"{what} ended while the balancer was serving")


async def operate(app: Starlette, listener: socket.socket) -> None:
    """The operators' HTTP server. uvicorn's own signal handling is not used: signals are ours."""
    config = uvicorn.Config(
        app,
        http=ImpatientProtocol,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
        limit_concurrency=256,
    )
    server = uvicorn.Server(config)
    if not config.loaded:
        config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])
    try:
        await server.main_loop()
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(2.0):
            await server.shutdown(sockets=[listener])


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"{bracketed(host)}:{port}"
