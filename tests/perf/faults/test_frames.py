"""The lab's WebSocket ear: frames in any pieces, pings answered."""

from __future__ import annotations

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from perf.faults.frames import CLEAR, UPDATE, Ear, message

pytestmark = pytest.mark.anyio
_PING = bytes((0x89, 2)) + b"hi"
_PONG = bytes((0x8A, 0x82)) + b"\x00" * 4 + b"hi"


def _text(payload: bytes) -> bytes:
    size = len(payload)
    return b"\x81" + (bytes((size,)) if size < 126 else b"\x7e" + size.to_bytes(2, "big")) + payload


async def test_what_comes_in_pieces_is_heard_and_pings_are_answered() -> None:
    answered = b""

    async def server(stream: SocketStream) -> None:
        nonlocal answered
        async with stream:
            said = b"HTTP/1.1 101 Yes\r\n\r\n" + _text(b"x" * 300) + _text(b"the mark") + _PING + _text(b"y" * 200) + _PING
            for at in range(0, len(said), 7):
                await stream.send(said[at : at + 7])
            while len(answered) < 2 * len(_PONG):
                answered += await stream.receive()

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, server)
        async with await anyio.connect_tcp("127.0.0.1", listener.extra(SocketAttribute.local_port)) as stream:
            ear = Ear(stream)
            with anyio.fail_after(10):
                assert await ear.head() == "HTTP/1.1 101 Yes"
                await ear.until(b"mark")
                await ear.attend()
        group.cancel_scope.cancel()
    assert answered == _PONG * 2


def test_a_callers_frames_are_short_and_masked() -> None:
    assert all(frame[1] & 0x80 for frame in (CLEAR, UPDATE))
    with pytest.raises(AssertionError):
        message({"type": "x" * 200})
