"""`/v1/realtime`: a call over WebSocket in the OpenAI Realtime protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.websockets import WebSocket

from runtime.codec.checkpoint_message import KeptSession
from runtime.codec.realtime_beta import is_beta
from runtime.codec.realtime_client import RealtimeDecoder
from runtime.codec.realtime_memory import RealtimeMemory
from runtime.codec.realtime_server import RealtimeEncoder
from runtime.codec.realtime_session import RealtimeSession
from runtime.codec.realtime_told import RealtimeTold
from runtime.codec.wire_state import RealtimeState, wire_state
from runtime.dialogue.agent_events import AgentEvent
from runtime.dialogue.caller_events import CallerEvent
from runtime.dialogue.session_settings import SessionSettings
from runtime.transport.websocket_door import WebSocketDoor
from runtime.transport.websocket_link import WebSocketLink, WireMessage

__all__ = ["RealtimeEndpoint"]

_SUBPROTOCOLS: Final = ("realtime",)


class RealtimeEndpoint:
    """Answers upgrades; the dialect is the one that the client's header asks for."""

    def __init__(self, door: WebSocketDoor) -> None:
        self._door = door

    async def answer(self, websocket: WebSocket) -> None:
        agent = await self._door.agent_of(websocket)
        if agent is None:
            return
        leg = await self._door.admit(websocket, agent)
        if leg is None:
            return
        await self._door.accept(websocket, leg, _SUBPROTOCOLS)
        beta = is_beta(websocket.headers.get("openai-beta", ""), websocket.scope["subprotocols"])
        if leg.is_adoption:
            await self._door.adopt(websocket, leg, lambda kept: _adopting(websocket, kept, beta))
            return
        settings = SessionSettings(agent)
        session = RealtimeSession(settings)
        state = RealtimeState(session, RealtimeTold.nothing(session), RealtimeMemory())
        await self._door.serve(websocket, leg, settings, _RealtimeLink(websocket, state, beta))


def _adopting(websocket: WebSocket, kept: KeptSession, beta: bool) -> _RealtimeLink:
    return _RealtimeLink(websocket, wire_state(RealtimeState, kept.wire), beta)


class _RealtimeLink(WebSocketLink):
    def __init__(self, websocket: WebSocket, state: RealtimeState, beta: bool) -> None:
        super().__init__(websocket)
        self._memory = state.memory
        self._decoder = RealtimeDecoder(state.session, state.memory, is_beta=beta)
        self._encoder = RealtimeEncoder(state.told, state.memory, is_beta=beta)

    @property
    def state(self) -> RealtimeState:
        return RealtimeState(self._decoder.session, self._encoder.state, self._memory)

    def read(self, message: WireMessage) -> Sequence[CallerEvent]:
        return self._decoder.decode(message) if isinstance(message, str) else [self._decoder.binary()]

    def audio_of(self, message: WireMessage) -> bytes | None:
        return self._decoder.audio_of(message) if isinstance(message, str) else None

    @property
    def numbered(self) -> int:
        return self._encoder.state.events

    @numbered.setter
    def numbered(self, count: int) -> None:
        self._encoder.state.events = count

    def encode(self, event: AgentEvent) -> Sequence[str]:
        return self._encoder.encode(event)
