"""`/v1/converse`: our own messages as binary WebSocket frames, one message a frame. What they mean is as over gRPC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import anyio
from starlette.websockets import WebSocket, WebSocketDisconnect

from runtime.codec.checkpoint_message import KeptSession
from runtime.codec.converse_client import ConverseDecoder
from runtime.codec.converse_config import BrokenContract, settings_from
from runtime.codec.converse_server import ConverseEncoder
from runtime.codec.wire_state import ConverseState, wire_state
from runtime.conversation.ports import LinkClosed
from runtime.dialogue.agent_events import AgentEvent
from runtime.dialogue.caller_events import CallerEvent, Configure
from runtime.dialogue.session_settings import SessionSettings
from runtime.primitives.errors import VoiceError
from runtime.primitives.reasons import EndReason
from runtime.transport.kept_call import is_kept
from runtime.transport.resumable_wires import SocketWire, parsed_request
from runtime.transport.resume_desk import ResumeDesk, ResumeRefused
from runtime.transport.websocket_door import WebSocketDoor, deny, hang_up, presented
from runtime.transport.websocket_link import WebSocketLink, WireMessage, audio_among
from runtime.wire.headers import RESUME_HEADER

__all__ = ["ConverseSocket"]

_SUBPROTOCOLS: Final = ("switchboard.v1",)


class ConverseSocket:
    """The upgrade names agent and session, since a balancer places by it; the configuration comes after."""

    def __init__(self, door: WebSocketDoor, desk: ResumeDesk, first_message_s: float) -> None:
        self._door = door
        self._desk = desk
        self._first_message_s = first_message_s

    async def answer(self, websocket: WebSocket) -> None:
        token = websocket.headers.get(RESUME_HEADER) or websocket.query_params.get("resume", "")
        if token:
            await self._resume(websocket, token)
            return
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
        configured = await self._door.first(
            websocket, leg, _configured(websocket, agent, leg.session_id), self._first_message_s, missing, BrokenContract
        )
        if configured is None:
            return
        settings, is_resumable = configured
        if is_resumable and self._desk.is_open and not is_kept(websocket, leg):
            link = await self._desk.begin(leg, settings, SocketWire(websocket))
            await hang_up(websocket, link.over, link.fault)
            return
        binary = _BinaryLink(websocket, settings, ConverseState(1, 0, 0), 1)
        binary.begin_with(Configure(settings))
        await self._door.serve(websocket, leg, settings, binary)

    async def _resume(self, websocket: WebSocket, token: str) -> None:
        try:
            held = self._desk.check(replace(presented(websocket), ticket=token))
        except VoiceError as error:
            await deny(websocket, 403 if isinstance(error, ResumeRefused) else 400, error.code, str(error))
            return
        await self._door.accept(websocket, None, _SUBPROTOCOLS, held.leg.session_id)
        link, fault = held.link, ""
        try:
            with anyio.fail_after(self._first_message_s):
                first = await SocketWire(websocket).receive()
            if first is None or first.WhichOneof("payload") != "resume":
                raise BrokenContract("the first message has no resume")
            link = await self._desk.take_up(held, SocketWire(websocket), first.received)
            fault = link.fault
        except TimeoutError:
            await hang_up(websocket, EndReason.NEVER_SPOKE, "no resume came; it is the first message")
        except BrokenContract as error:
            await hang_up(websocket, EndReason.PROTOCOL_ERROR, str(error))
        except LinkClosed:
            await hang_up(websocket, None)
        else:
            await hang_up(websocket, link.over, fault)


async def _configured(websocket: WebSocket, agent: str, session_id: str) -> tuple[SessionSettings, bool]:
    """The first message, and whether its client may come back. Raises BrokenContract or WebSocketDisconnect."""
    message = await websocket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1005))
    request = parsed_request(message.get("bytes"))
    if request.WhichOneof("payload") != "config":
        raise BrokenContract("the first message has no config")
    settings = settings_from(request.config, agent)
    if settings.agent != agent:
        raise BrokenContract(f"config.agent is {settings.agent[:64]!r}; the upgrade named {agent!r}")
    if request.config.session_id not in ("", session_id):
        raise BrokenContract(f"config.session_id is {request.config.session_id[:64]!r}; the session is {session_id!r}")
    if request.config.resumable and request.ordinal != 1:
        raise BrokenContract(f"ordinal is {request.ordinal}; a resumable session's messages are numbered from config's 1")
    return settings, request.config.resumable


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
            request = parsed_request(message if isinstance(message, bytes) else None)
            request.ordinal = 0  # it was checked when it was read
            return audio_among([ConverseDecoder(self._settings).decode(request)])
        except BrokenContract:
            return None

    def read(self, message: WireMessage) -> Sequence[CallerEvent]:
        try:
            event = self._decoder.decode(parsed_request(message if isinstance(message, bytes) else None))
        except BrokenContract as error:
            self.close_reason = str(error)
            raise LinkClosed(EndReason.PROTOCOL_ERROR) from None
        follow_up = self._decoder.follow_up(event)
        return [event] if follow_up is None else [event, follow_up]

    @property
    def numbered(self) -> int:
        return self._encoder.ordinal

    @numbered.setter
    def numbered(self, count: int) -> None:
        self._encoder.ordinal = count

    def encode(self, event: AgentEvent) -> Sequence[bytes]:
        return [response.SerializeToString() for response in self._encoder.encode(event)]
