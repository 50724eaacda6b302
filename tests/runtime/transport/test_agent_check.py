"""HAProxy's agent-check: the line in every state, over a real socket."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from runtime.primitives.load_snapshot import LegTotals, LoadSnapshot, RuntimeState
from runtime.transport.agent_check import AgentCheck, agent_line

_SNAPSHOT = LoadSnapshot("r", 1, 1, 0, 0, 0, 5, 0, 32, LegTotals(), RuntimeState.READY, utilisation=0.38)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "up 62% maxconn:32"),
        ({"utilisation": 0.0}, "up 100% maxconn:32"),
        ({"utilisation": 3.0}, "up 1% maxconn:32"),
        ({"state": RuntimeState.DRAINING}, "drain"),
        ({"state": RuntimeState.STARTING}, "down"),
        ({"state": RuntimeState.OFFLINE}, "down"),
    ],
)
def test_the_line(changes: dict[str, object], line: str) -> None:  # requirement D4, bug B39
    assert agent_line(replace(_SNAPSHOT, **changes)) == line  # type: ignore[arg-type]  # one field at a time


@pytest.mark.anyio
async def test_each_connection_gets_one_line_and_is_closed() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, AgentCheck(lambda: _SNAPSHOT).answer)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        for _ in range(3):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                with anyio.fail_after(20):
                    assert await stream.receive() == b"up 62% maxconn:32\n"
                    with pytest.raises(anyio.EndOfStream):
                        await stream.receive()
        group.cancel_scope.cancel()
