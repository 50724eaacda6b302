"""Our own messages as binary WebSocket frames."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from protos.switchboard.v1 import voice_pb2 as pb
from tests.conformance.callers import Caller, Listener
from tests.conformance.grpc_wire import PCM16_24K, configuration, from_message
from tests.conformance.realtime_wire import refused
from tests.support.local_runtime import LocalRuntime
from tests.support.raw_websocket import small_socket

__all__ = ["binary"]


class BinaryCaller(Listener):
    def __init__(self, connection: ClientConnection) -> None:
        super().__init__()
        self._connection = connection

    async def _send(self, request: pb.ConverseRequest) -> None:
        await self._connection.send(request.SerializeToString())

    async def configure(self) -> None:
        await self._send(pb.ConverseRequest(config=configuration("")))

    async def say(self, pcm: bytes) -> None:
        for start in range(0, len(pcm), 4_800):
            await self._send(pb.ConverseRequest(audio=pb.AudioChunk(data=pcm[start : start + 4_800], format=PCM16_24K)))

    async def type(self, text: str) -> None:
        await self._send(pb.ConverseRequest(text=text))

    async def answer_tool(self, call_id: str, output: str) -> None:
        await self._send(pb.ConverseRequest(tool_output=pb.ToolOutput(call_id=call_id, output=output)))

    async def send_nonsense(self) -> None:
        await self._send(pb.ConverseRequest())

    async def say_goodbye(self) -> None:
        await self._send(pb.ConverseRequest(end=pb.EndSession()))

    def vanish(self) -> None:
        self._connection.transport.abort()

    async def listen(self) -> None:
        """The ordinals of what is told are checked on the way."""
        ordinal = 0
        try:
            async for message in self._connection:
                assert isinstance(message, bytes)
                response = pb.ConverseResponse.FromString(message)
                ordinal += 1
                assert response.ordinal == ordinal
                self.hear(from_message(response))
        except ConnectionClosed:
            pass
        got = self._connection.protocol.close_rcvd
        self.over(f"{got.code} {got.reason}".strip() if got is not None else "lost")


@asynccontextmanager
async def binary(
    local: LocalRuntime, session_id: str = "", url: str = "", configures: bool = True, reads: bool = True
) -> AsyncIterator[Caller]:
    headers = {"x-switchboard-session": session_id} if session_id else {}
    target = url or local.url.replace("/v1/realtime", "/v1/converse")
    sock = None if reads else small_socket(urlsplit(target).netloc, 2_048)
    try:
        connection = await connect(
            target, additional_headers=headers, max_queue=4096 if reads else 1, ping_interval=None, sock=sock
        )
    except InvalidStatus as error:
        raise refused(error) from None
    caller = BinaryCaller(connection)
    async with anyio.create_task_group() as group:
        if reads:
            group.start_soon(caller.listen)
        if configures:
            await caller.configure()
        try:
            yield caller
        finally:
            group.cancel_scope.cancel()
            connection.transport.abort()
