"""How a call is hung up: with a close where somebody reads it, else by dropping the socket."""

from __future__ import annotations

from typing import cast

import pytest
from starlette.websockets import WebSocket

from runtime.primitives.reasons import EndReason
from runtime.transport.asides import ASIDES_KEY
from runtime.transport.websocket_door import ABORT_KEY, hang_up

pytestmark = pytest.mark.anyio


class _Socket:
    def __init__(self, is_kept: bool) -> None:
        self.told: list[object] = []
        state: dict[str, object] = {ABORT_KEY: lambda: self.told.append("dropped")}
        if is_kept:
            state[ASIDES_KEY] = object()
        self.scope = {"state": state}

    async def close(self, code: int, reason: str) -> None:
        self.told.append((code, reason))


@pytest.mark.parametrize(
    ("reason", "is_kept", "told"),
    [
        (EndReason.CLOSED_BY_AGENT, False, (1000, "closed_by_agent")),
        (EndReason.SLOW_CALLER, False, "dropped"),
        (EndReason.SLOW_CALLER, True, (1008, "slow_caller")),  # the relay reads, and would look for another runtime
        (EndReason.CONNECTION_LOST, True, "dropped"),
        (None, True, "dropped"),
    ],
)
async def test_who_reads_no_close_is_dropped(reason: EndReason | None, is_kept: bool, told: object) -> None:
    socket = _Socket(is_kept)
    await hang_up(cast(WebSocket, socket), reason)
    assert socket.told == [told]
