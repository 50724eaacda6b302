"""HAProxy's agent-check: each connection gets one line about this runtime and is closed.

    up 62% maxconn:32     takes calls; weight 62 % of the configured one; at most 32 sessions at once
    drain                 keeps its calls, gets no new ones
    down                  starting or leaving

The percentage is the share of the CPU that is free, at least 1, since HAProxy counts the sessions itself. Source: HAProxy's
configuration manual, `agent-check`. Every answer carries the whole state, so that a lost one does no harm.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import anyio
from anyio.abc import SocketStream

from runtime.primitives.load_snapshot import LoadSnapshot, RuntimeState

__all__ = ["AgentCheck", "agent_line"]

_WRITE_S = 2.0


def agent_line(snapshot: LoadSnapshot) -> str:
    """The line, without its end.

    >>> from runtime.primitives.load_snapshot import LegTotals
    >>> agent_line(LoadSnapshot("r", 1, 1, 0, 0, 0, 5, 0, 32, LegTotals(), RuntimeState.READY, utilisation=0.38))
    'up 62% maxconn:32'
    """
    match snapshot.state:
        case RuntimeState.READY:
            free = max(1, round(100 * (1 - min(1.0, snapshot.utilisation))))
            return f"up {free}% maxconn:{snapshot.hard_limit}"
        case RuntimeState.DRAINING:
            return "drain"
        case RuntimeState.STARTING | RuntimeState.OFFLINE:
            return "down"


class AgentCheck:
    """Serves the line on a TCP port."""

    def __init__(self, snapshot: Callable[[], LoadSnapshot], told: Callable[[], None] = lambda: None) -> None:
        """Args: `told` is called after each answer."""
        self._snapshot = snapshot
        self._told = told

    async def answer(self, stream: SocketStream) -> None:
        """One connection. What the peer sends is not read."""
        async with stream:
            with anyio.move_on_after(_WRITE_S), contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await stream.send(agent_line(self._snapshot()).encode() + b"\n")
                await stream.send_eof()
                self._told()
