"""`/v1/converse`: our own messages as binary WebSocket frames, one message a frame. What they mean is as over gRPC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import DecodeError
from starlette.websockets import WebSocket, WebSocketDisconnect

from protos.switchboard.v1 import voice_pb2 as pb
from runtime.codec.checkpoint_message import KeptSession
from runtime.codec.converse_client import ConverseDecoder
from runtime.codec.converse_config import BrokenContract, settings_from
from runtime.codec.converse_server import ConverseEncoder
from runtime.codec.wire_state import ConverseState, wire_state
from runtime.conversation.ports import LinkClosed
from runtime.dialogue.agent_events import AgentEvent
from runtime.dialogue.caller_events import CallerEvent, Configure
from runtime.dialogue.session_settings import SessionSettings
from runtime.primitives.reasons import EndReason
from runtime.transport.websocket_door import WebSocketDoor
from runtime.transport.websocket_link import WebSocketLink, WireMessage, audio_among

__all__ = ["ConverseSocket"]

_SUBPROTOCOLS: Final = ("switchboard.v1",)


class ConverseSocket:
    """The upgrade names agent and session, since a balancer places by it; the configuration comes after."""

    def __init__(self, door: WebSocketDoor, first_message_s: float) -> None:
        self._door = door
        self._first_message_s = first_message_s

    async def answer(self, websocket: WebSocket) -> None:
        agent = await self._door.agent_of(websocket)
        if agent is None:
            return
        leg = await self._door.admit(websocket, agent)
        if leg is None:
            return
        await self._door.accept(websocket, leg, _SUBPROTOCOLS)
        if leg.is_adoption:
            await self._door.adopt(websocket, leg, lambda kept: _adopting(websocket, kept))
            return
        missing = "no configuration came; it is the first message"
        settings = await self._door.first(
            websocket, leg, _configured(websocket, agent), self._first_message_s, missing, BrokenContract
        )
        if settings is not None:
            link = _BinaryLink(websocket, settings, ConverseState(1, 0, 0), 1)
            link.begin_with(Configure(settings))
            await self._door.serve(websocket, leg, settings, link)


async def _configured(websocket: WebSocket, agent: str) -> SessionSettings:
    """The first message. Raises BrokenContract or WebSocketDisconnect."""
    message = await websocket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1005))
    request = _parsed(message.get("bytes"))
    if request.WhichOneof("payload") != "config":
        raise BrokenContract("the first message has no config")
    settings = settings_from(request.config, agent)
    if settings.agent != agent:
        raise BrokenContract(f"config.agent is {settings.agent[:64]!r}; the upgrade named {agent!r}")
    return settings


def _parsed(data: bytes | None) -> pb.ConverseRequest:
    if data is None:
        raise BrokenContract("the message is text; expected binary messages, each one ConverseRequest")
    try:
        return pb.ConverseRequest.FromString(data)
    except DecodeError:
        raise BrokenContract("the bytes are no ConverseRequest; expected a protobuf message of switchboard.v1") from None


def _adopting(websocket: WebSocket, kept: KeptSession) -> _BinaryLink:
    return _BinaryLink(websocket, kept.checkpoint.settings, wire_state(ConverseState, kept.wire), 0)


class _BinaryLink(WebSocketLink):
    def __init__(self, websocket: WebSocket, settings: SessionSettings, state: ConverseState, applied: int) -> None:
        super().__init__(websocket, applied)
        self._settings = settings
        self._decoder = ConverseDecoder(settings, state.heard)
        self._encoder = ConverseEncoder(settings, (state.told, state.media_time_ms))

    @property
    def state(self) -> ConverseState:
        return ConverseState(self._decoder.heard, *self._encoder.told)

    def audio_of(self, message: WireMessage) -> bytes | None:
        try:
            request = _parsed(message if isinstance(message, bytes) else None)
            request.ordinal = 0  # it was checked when it was read
            return audio_among([ConverseDecoder(self._settings).decode(request)])
        except BrokenContract:
            return None

    def read(self, message: WireMessage) -> Sequence[CallerEvent]:
        try:
            event = self._decoder.decode(_parsed(message if isinstance(message, bytes) else None))
        except BrokenContract as error:
            self.close_reason = str(error)
            raise LinkClosed(EndReason.PROTOCOL_ERROR) from None
        follow_up = self._decoder.follow_up(event)
        return [event] if follow_up is None else [event, follow_up]

    def encode(self, event: AgentEvent) -> Sequence[bytes]:
        return [response.SerializeToString() for response in self._encoder.encode(event)]
