"""The connections that carry resumable sessions: binary WebSocket frames, and a gRPC stream."""

from __future__ import annotations

from typing import TypeAlias

import grpc
from google.protobuf.message import DecodeError
from grpc import aio
from starlette.websockets import WebSocket, WebSocketDisconnect

from protos.switchboard.v1 import voice_pb2 as pb
from runtime.codec.converse_config import BrokenContract
from runtime.conversation.ports import LinkClosed
from runtime.primitives.reasons import EndReason
from runtime.transport.websocket_link import reason_of

__all__ = ["GrpcWire", "SocketWire", "parsed_request", "read_request"]

Context: TypeAlias = aio.ServicerContext[pb.ConverseRequest, pb.ConverseResponse]
_NO_MESSAGE = "the bytes are no ConverseRequest; expected a protobuf message of switchboard.v1"


def parsed_request(data: bytes | None) -> pb.ConverseRequest:
    """One frame's message. Raises BrokenContract."""
    if data is None:
        raise BrokenContract("the message is text; expected binary messages, each one ConverseRequest")
    try:
        return pb.ConverseRequest.FromString(data)
    except DecodeError:
        raise BrokenContract(_NO_MESSAGE) from None


async def read_request(context: Context) -> pb.ConverseRequest | None:
    """The next message; None at the end of the stream, whatever ended it (the stubs do not know grpc's EOF mark).

    Raises BrokenContract for bytes that are no message.
    """
    try:
        received: object = await context.read()
    except DecodeError:
        raise BrokenContract(_NO_MESSAGE) from None
    return received if isinstance(received, pb.ConverseRequest) else None


class SocketWire:
    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket

    async def receive(self) -> pb.ConverseRequest | None:
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise LinkClosed(reason_of(message))
        return parsed_request(message.get("bytes"))

    async def send(self, response: pb.ConverseResponse) -> None:
        try:
            await self._websocket.send_bytes(response.SerializeToString())
        except (WebSocketDisconnect, RuntimeError) as error:
            raise LinkClosed(EndReason.CONNECTION_LOST) from error


class GrpcWire:
    """`is_stuck`: a write was cut off, after which grpc can send no status."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.is_stuck = False

    async def receive(self) -> pb.ConverseRequest | None:
        try:
            return await read_request(self._context)
        except (aio.BaseError, grpc.RpcError) as error:
            raise LinkClosed(EndReason.CONNECTION_LOST) from error

    async def send(self, response: pb.ConverseResponse) -> None:
        try:
            self.is_stuck = True
            await self._context.write(response)
            self.is_stuck = False
        except (aio.BaseError, grpc.RpcError) as error:
            raise LinkClosed(EndReason.CONNECTION_LOST) from error
