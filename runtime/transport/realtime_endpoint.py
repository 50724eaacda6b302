"""`/v1/realtime`: a call over WebSocket in the OpenAI Realtime protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.websockets import WebSocket

from runtime.codec.realtime_beta import is_beta
from runtime.codec.realtime_client import RealtimeDecoder
from runtime.codec.realtime_memory import RealtimeMemory
from runtime.codec.realtime_server import RealtimeEncoder
from runtime.codec.realtime_session import RealtimeSession
from runtime.dialogue.agent_events import AgentEvent
from runtime.dialogue.caller_events import CallerEvent
from runtime.dialogue.session_settings import SessionSettings
from runtime.transport.websocket_door import WebSocketDoor, WebSocketLink

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
        settings = SessionSettings(agent)
        await self._door.serve(websocket, leg, settings, _RealtimeLink(websocket, settings, beta))


class _RealtimeLink(WebSocketLink):
    def __init__(self, websocket: WebSocket, settings: SessionSettings, beta: bool) -> None:
        super().__init__(websocket)
        session, memory = RealtimeSession(settings), RealtimeMemory()
        self._decoder = RealtimeDecoder(session, memory, is_beta=beta)
        self._encoder = RealtimeEncoder(session, memory, is_beta=beta)

    def read(self, message: str | bytes) -> Sequence[CallerEvent]:
        return self._decoder.decode(message) if isinstance(message, str) else [self._decoder.binary()]

    def written(self, event: AgentEvent) -> Sequence[str]:
        return self._encoder.encode(event)
