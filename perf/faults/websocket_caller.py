"""A call over WebSocket that ends as it is told to: raw frames on a socket."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import Final

import anyio
from anyio.abc import SocketStream

from perf.faults.agent import FAULT, FLOOD
from perf.faults.frames import CLEAR, UPDATE, Ear, closing, message, upgrade_request
from perf.faults.journal import Visit
from perf.faults.plan import Door, Ending, Outcome
from runtime.wire.headers import RUNTIME_HEADER

__all__ = ["CHATTER_S", "SLOW_S", "Place", "WebSocketCaller"]

CHATTER_S: Final = 2.0
"""How often a caller that stays says something: well within the workers' idle limit."""
SLOW_S: Final = 8.0
"""How long a caller does not read: above the workers' limit for slow callers, below that for idle ones. Whoever looks whether
it was hung up on would have to read."""
_SMALL: Final = 536
"""Bytes in a segment: a connection of small segments has small buffers, which are soon full. The least that every host must take
(RFC 9293, 3.7.1)."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where to call, host:port for each wire. `ticket` is empty where none is needed."""

    http: str
    grpc: str
    ticket: str = ""


class WebSocketCaller:
    """`stay_s`: how long a call that stays is held."""

    def __init__(self, stay_s: float) -> None:
        self._stay_s = stay_s

    async def call(self, visit: Visit, place: Place) -> Outcome:
        """Raises OSError or anyio's stream errors where the connection ends before its time."""
        connection = visit.connection
        async with await _connect(place.http, is_small=connection.ending is Ending.SLOW) as stream:
            if connection.ending is Ending.GARBAGE:
                seed = sum(connection.session_id.encode())
                await stream.send(bytes((seed * 7 + step) % 256 for step in range(64)))
                return Outcome.UNSPOKEN
            query = f"ticket={place.ticket}" if place.ticket else f"session_id={connection.session_id}"
            await stream.send(upgrade_request(place.http, f"/v1/realtime?{query}"))
            ear = Ear(stream)
            head = await ear.head()
            if " 101 " not in head.partition("\r\n")[0]:
                return Outcome.REFUSED
            if connection.door is Door.RELAYED:
                visit.place(_header(head, RUNTIME_HEADER))
            if connection.ending is Ending.SILENT:
                _reset(stream)
                return Outcome.UNSPOKEN
            await stream.send(UPDATE)
            await ear.until(b'"session.updated"')
            return await self._end(visit, stream, ear)

    async def _end(self, visit: Visit, stream: SocketStream, ear: Ear) -> Outcome:
        ending = visit.connection.ending
        if ending in (Ending.STAY, Ending.DRAIN):
            return await self._stay(visit, stream, ear)
        visit.leave()
        match ending:
            case Ending.CLOSE:
                await stream.send(closing())
                await ear.to_the_end()
            case Ending.RESET:
                _reset(stream)
            case Ending.HALF_CLOSE:
                await stream.send_eof()
                await ear.to_the_end()
            case Ending.BREACH:
                await stream.send(b"\xff\xff\xff\xff")  # reserved bits and an unknown opcode
                await ear.to_the_end()
            case Ending.HALF_OPEN:
                await ear.to_the_end()  # reads on, answers no ping
            case Ending.IDLE:
                await ear.attend()
            case Ending.LONG:
                await self._chat(ear)
            case Ending.FAULT | Ending.SLOW:
                await stream.send(_typed(FAULT if ending is Ending.FAULT else FLOOD))
                await stream.send(message({"type": "response.create"}))
                await (ear.to_the_end() if ending is Ending.FAULT else anyio.sleep(SLOW_S))
            case _:
                raise AssertionError(f"{ending} is no way to end here")
        return Outcome.STARTED

    async def _stay(self, visit: Visit, stream: SocketStream, ear: Ear) -> Outcome:
        visit.hold()
        is_for_a_while = visit.connection.ending is Ending.STAY
        with anyio.move_on_after(self._stay_s if is_for_a_while else None) as stay:
            await self._chat(ear)
        if stay.cancelled_caught:
            visit.leave()
            _reset(stream)
            return Outcome.STARTED
        return Outcome.CUT if is_for_a_while else Outcome.STARTED

    async def _chat(self, ear: Ear) -> None:
        """Says something now and then, and answers pings, until the connection is over."""
        async with anyio.create_task_group() as group:
            group.start_soon(_chatter, ear)
            await ear.attend()
            group.cancel_scope.cancel()


async def _chatter(ear: Ear) -> None:
    try:
        while True:
            await anyio.sleep(CHATTER_S)
            await ear.say(CLEAR)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return  # the ear notices as well


async def _connect(address: str, *, is_small: bool) -> SocketStream:
    host, _, port = address.rpartition(":")
    if not is_small:
        return await anyio.connect_tcp(host, int(port))
    raw = socket.socket()
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SMALL)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect((host, int(port)))  # on one machine, so it does not wait
    raw.setblocking(False)
    return await SocketStream.from_socket(raw)


def _typed(text: str) -> bytes:
    content = [{"type": "input_text", "text": text}]
    return message({"type": "conversation.item.create", "item": {"type": "message", "role": "user", "content": content}})


def _header(head: str, name: str) -> str:
    for line in head.split("\r\n"):
        key, _, value = line.partition(":")
        if key.strip().lower() == name:
            return value.strip()
    return ""


def _reset(stream: SocketStream) -> None:
    """The close that follows tears the connection by RST."""
    raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
