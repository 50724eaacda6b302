"""Asides of a relay on a call's WebSocket: the extension that finds them, and the channel that sends and takes them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

import anyio
from google.protobuf.message import DecodeError
from websockets.exceptions import NegotiationError, ProtocolError
from websockets.extensions import Extension, ServerExtensionFactory
from websockets.frames import Frame, Opcode
from websockets.typing import ExtensionName, ExtensionParameter

from protos.switchboard.v1 import continuity_pb2 as pb
from runtime.primitives.reasons import EndReason
from runtime.wire.asides import ASIDE_EXTENSION, build_aside

__all__ = ["ASIDES_KEY", "AsideExtension", "AsideExtensionFactory", "Asides"]

ASIDES_KEY: Final = "switchboard_asides"
"""In the connection's state: its `Asides`, where the other side offered them."""
_MOST_WAITING: Final = 64


class AsideExtension(Extension):
    """Takes asides out of the stream of frames. `take` may refuse one that is too many."""

    name = ExtensionName(ASIDE_EXTENSION)

    def __init__(self) -> None:
        self.taken: deque[bytes] = deque()
        self.arrived = anyio.Event()

    def decode(self, frame: Frame, *, max_size: int | None = None) -> Frame:  # noqa: ARG002  # frames are bounded before
        if not frame.rsv3:
            return frame
        if not frame.fin or frame.opcode is not Opcode.BINARY or frame.rsv1 or frame.rsv2:
            return frame  # its check finds the bit
        if len(self.taken) >= _MOST_WAITING:
            raise ProtocolError("too many asides")
        self.taken.append(bytes(frame.data))
        self.arrived.set()
        return Frame(Opcode.PONG, b"")  # which asks for nothing and is told to nobody

    def encode(self, frame: Frame) -> Frame:
        return frame


class AsideExtensionFactory(ServerExtensionFactory):
    name = ExtensionName(ASIDE_EXTENSION)

    def process_request_params(
        self, params: Sequence[ExtensionParameter], accepted_extensions: Sequence[Extension]
    ) -> tuple[list[ExtensionParameter], Extension]:
        if params or accepted_extensions:
            raise NegotiationError("offered once, without parameters")
        return [], AsideExtension()


class Asides:
    """Both directions. One task takes."""

    def __init__(self, extension: AsideExtension, transport: asyncio.Transport) -> None:
        self._extension = extension
        self._transport = transport

    def say(self, aside: pb.RuntimeAside) -> None:
        """In order with all that is sent. Never waits: what a relay does not read ends the call by other means."""
        if not self._transport.is_closing():
            self._transport.write(build_aside(aside.SerializeToString()))

    def over(self, reason: EndReason) -> None:
        """The session has ended, and the close that follows is meant for its caller: nobody is to go on with it."""
        self.say(pb.RuntimeAside(over=pb.SessionOver(reason=reason.value)))

    async def take(self) -> pb.RelayAside:
        """The next one. What is no aside is skipped: a newer relay may say what we do not know."""
        extension = self._extension
        while True:
            while not extension.taken:
                extension.arrived = anyio.Event()
                await extension.arrived.wait()
            try:
                aside = pb.RelayAside.FromString(extension.taken.popleft())
            except DecodeError:
                continue
            if aside.WhichOneof("said") is not None:
                return aside
