"""`/v1/twilio`, `/v1/twilio/AGENT`: a telephone call over Twilio Media Streams.

Such a stream's address has no query, so the agent stands in the path; what the call's owner gives along comes in `start`, after
the upgrade, and reaches the agent as metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from runtime.codec.checkpoint_message import KeptSession
from runtime.codec.twilio import (
    TWILIO_FORMAT,
    BrokenStream,
    MarkClock,
    TwilioDecoder,
    TwilioEncoder,
    TwilioStart,
    start_from,
)
from runtime.codec.twilio_signature import is_signed
from runtime.codec.wire_state import TwilioState, wire_state
from runtime.conversation.ports import LinkClosed
from runtime.dialogue.agent_events import AgentEvent
from runtime.dialogue.caller_events import CallerEvent, Configure, RequestReply
from runtime.dialogue.session_settings import ServerVad, SessionSettings
from runtime.primitives.reasons import EndReason
from runtime.transport.websocket_door import WebSocketDoor, deny
from runtime.transport.websocket_link import WebSocketLink, WireMessage, audio_among

__all__ = ["TwilioEndpoint"]

_SIGNATURE_HEADER: Final = "x-twilio-signature"
_MESSAGES_BEFORE_START: Final = 4


class TwilioEndpoint:
    """Args: `auth_token`: where it is not empty, an upgrade without Twilio's signature is refused. `idle_timeout_ms`: as in
    `ServerVad`, and `greets`, whether the agent speaks first, since a telephone has no word for either."""

    def __init__(
        self, door: WebSocketDoor, first_message_s: float, auth_token: str, *, idle_timeout_ms: int, greets: bool
    ) -> None:
        self._turn_detection = ServerVad(idle_timeout_ms=idle_timeout_ms)
        self._door = door
        self._first_message_s = first_message_s
        self._auth_token = auth_token
        self._first_words = (RequestReply(),) if greets else ()

    async def answer(self, websocket: WebSocket) -> None:
        if not self._is_genuine(websocket):
            await deny(websocket, 403, "bad_signature", "X-Twilio-Signature is missing or does not fit this address")
            return
        agent = await self._door.agent_of(websocket, websocket.path_params.get("agent", ""))
        if agent is None:
            return
        leg = await self._door.admit(websocket, agent)
        if leg is None:
            return
        await self._door.accept(websocket, leg, ())
        if leg.is_adoption:
            await self._door.adopt(websocket, leg, lambda kept: _adopting(websocket, kept))
            return
        began = await self._door.first(websocket, leg, _started(websocket), self._first_message_s, "no start came", BrokenStream)
        if began is None:
            return
        start, messages = began
        metadata = {**start.parameters, "call_sid": start.call_sid, "stream_sid": start.stream_sid}
        settings = SessionSettings(agent, TWILIO_FORMAT, TWILIO_FORMAT, self._turn_detection, metadata=metadata)
        await self._door.serve(websocket, leg, settings, self._new(websocket, settings, start, messages))

    def _new(self, websocket: WebSocket, settings: SessionSettings, start: TwilioStart, messages: int) -> _TwilioLink:
        link = _TwilioLink(websocket, TwilioState(start.stream_sid, 0, 0, 0.0, 0.0), messages)
        for event in (Configure(settings), *self._first_words):
            link.begin_with(event)
        return link

    def _is_genuine(self, websocket: WebSocket) -> bool:
        if not self._auth_token:
            return True
        path, query = websocket.scope["raw_path"].decode("latin-1"), websocket.scope["query_string"].decode("latin-1")
        target = f"{path}?{query}" if query else path
        signature = websocket.headers.get(_SIGNATURE_HEADER, "")
        return is_signed(websocket.headers.get("host", ""), target, signature, self._auth_token)


async def _started(websocket: WebSocket) -> tuple[TwilioStart, int]:
    """The start, and the messages up to it. Raises BrokenStream or WebSocketDisconnect."""
    for number in range(1, _MESSAGES_BEFORE_START + 1):
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005))
        start = start_from(message.get("text") or "")
        if start is not None:
            return start, number
    raise BrokenStream("start did not come; expected connected, then start")


def _adopting(websocket: WebSocket, kept: KeptSession) -> _TwilioLink:
    return _TwilioLink(websocket, wire_state(TwilioState, kept.wire), 0)


class _TwilioLink(WebSocketLink):
    frames_per_message = 5 / 6
    """A mark beside every fifth."""

    def __init__(self, websocket: WebSocket, state: TwilioState, applied: int) -> None:
        super().__init__(websocket, applied)
        self._stream_sid = state.stream_sid
        self._marks = MarkClock(state.cleared_upto)
        self._decoder = TwilioDecoder(self._marks)
        self._encoder = TwilioEncoder(state.stream_sid, self._marks, (state.generation, state.sent_ms, state.marked_ms))

    @property
    def state(self) -> TwilioState:
        return TwilioState(self._stream_sid, self._marks.cleared_upto, *self._encoder.told)

    def audio_of(self, message: WireMessage) -> bytes | None:
        try:
            return audio_among(self._decoder.decode(message if isinstance(message, str) else ""))
        except BrokenStream:
            return None

    def read(self, message: WireMessage) -> Sequence[CallerEvent]:
        try:
            return self._decoder.decode(message if isinstance(message, str) else "")
        except BrokenStream as error:
            self.close_reason = str(error)
            raise LinkClosed(EndReason.PROTOCOL_ERROR) from None

    def encode(self, event: AgentEvent) -> Sequence[str]:
        return self._encoder.encode(event)
