"""Our own messages as binary WebSocket frames."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from protos.switchboard.v1 import voice_pb2 as pb
from tests.conformance.callers import Caller, Listener
from tests.conformance.grpc_wire import PCM16_24K, configuration, from_message
from tests.conformance.websocket_wire import over_websocket
from tests.support.local_runtime import LocalRuntime

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
    target = url or local.url.replace("/v1/realtime", "/v1/converse")
    async with over_websocket(BinaryCaller, target, session_id, {}, configures=configures, reads=reads) as caller:
        yield caller
