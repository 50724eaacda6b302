"""`/v1/realtime`: a call over WebSocket in the OpenAI Realtime protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
from starlette.responses import JSONResponse
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from runtime.codec.realtime_client import RealtimeDecoder
from runtime.codec.realtime_server import RealtimeEncoder
from runtime.conversation.calls import Calls
from runtime.conversation.ports import LinkClosed
from runtime.dialogue.agent_events import AgentEvent
from runtime.dialogue.caller_events import CallerEvent
from runtime.dialogue.session_settings import SessionSettings
from runtime.primitives.errors import VoiceError
from runtime.primitives.reasons import EndReason
from runtime.session.ledger import DuplicateSession, Leg, UnknownTicket
from runtime.transport.place import DirectForbidden, PlaceRefused, Places
from runtime.wire.close_codes import HTTP_STATUS_BY_REFUSAL, WEBSOCKET_CLOSE_BY_END
from runtime.wire.headers import RUNTIME_HEADER, SESSION_HEADER, TICKET_HEADER

__all__ = ["ABORT_KEY", "RealtimeEndpoint"]

ABORT_KEY: Final = "switchboard_abort"
"""In the connection's state: drops the socket at once. The only way to be rid of a caller that never reads."""
_SUBPROTOCOL: Final = "realtime"
_GOODBYE_CODES: Final = frozenset({1000, 1001})
_CLOSE_S: Final = 2.0
"""How long a close may wait for a caller that does not read, before the socket is dropped."""


class RealtimeEndpoint:
    """Answers upgrades. A refusal is an HTTP answer before the upgrade, so that no client sees a call that never was."""

    def __init__(self, calls: Calls, places: Places, runtime_id: str) -> None:
        self._calls = calls
        self._places = places
        self._runtime_id = runtime_id

    async def answer(self, websocket: WebSocket) -> None:
        agent = websocket.query_params.get("model") or self._calls.default_agent
        if agent not in self._calls.agent_names:
            served = ", ".join(sorted(self._calls.agent_names))
            await _deny(websocket, 404, "unknown_agent", f"model is {agent[:64]!r}; served: {served}")
            return
        try:
            leg = self._places.take(
                ticket=websocket.headers.get(TICKET_HEADER) or websocket.query_params.get("ticket", ""),
                wished_session_id=websocket.headers.get(SESSION_HEADER) or websocket.query_params.get("session_id", ""),
                agent=agent,
                peer_host=websocket.client.host if websocket.client else "",
            )
        except VoiceError as error:
            await _refuse(websocket, error)
            return
        try:
            await self._accept(websocket, leg)
        except BaseException:
            self._calls.abandon(leg)
            raise
        settings = SessionSettings(agent)
        reason = await self._calls.serve(leg, settings, _WebSocketLink(websocket, settings))
        await self._hang_up(websocket, reason)

    async def _accept(self, websocket: WebSocket, leg: Leg) -> None:
        subprotocol = _SUBPROTOCOL if _SUBPROTOCOL in websocket.scope["subprotocols"] else None
        headers = [(SESSION_HEADER.encode(), leg.session_id.encode()), (RUNTIME_HEADER.encode(), self._runtime_id.encode())]
        await websocket.accept(subprotocol, headers)

    async def _hang_up(self, websocket: WebSocket, reason: EndReason) -> None:
        if reason is EndReason.CLOSED_BY_CALLER:
            return
        if reason not in (EndReason.CONNECTION_LOST, EndReason.SLOW_CALLER):
            with anyio.move_on_after(_CLOSE_S):
                await _close(websocket, WEBSOCKET_CLOSE_BY_END[reason], reason.value)
                return
        abort: Callable[[], None] = websocket.scope["state"][ABORT_KEY]
        abort()


class _WebSocketLink:
    """The call's two directions over an accepted WebSocket."""

    def __init__(self, websocket: WebSocket, settings: SessionSettings) -> None:
        self._websocket = websocket
        self._decoder = RealtimeDecoder(settings)
        self._encoder = RealtimeEncoder(settings)

    async def receive(self) -> CallerEvent:
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                raise LinkClosed(_reason(message))
            text = message.get("text")
            event = self._decoder.decode(text) if text is not None else self._decoder.binary()
            if event is not None:
                return event

    async def send(self, event: AgentEvent) -> None:
        try:
            for text in self._encoder.encode(event):
                await self._websocket.send_text(text)
        except (WebSocketDisconnect, RuntimeError) as error:
            # Starlette answers RuntimeError to a send after the close was seen by the receiving side.
            raise LinkClosed(EndReason.CONNECTION_LOST) from error


def _reason(disconnect: Message) -> EndReason:
    """A close frame with a normal code or none is a goodbye; a broken protocol was closed by our side; else it is a loss.

    1005 (RFC 6455: no code) stands both for a close frame without a code, which is what a browser's `close()` sends, and for a
    socket that just ended: only the frame brings a `reason`.
    """
    code = disconnect.get("code")
    if code in _GOODBYE_CODES or (code == 1005 and "reason" in disconnect):
        return EndReason.CLOSED_BY_CALLER
    if code in (1002, 1003, 1007, 1009):
        return EndReason.PROTOCOL_ERROR
    return EndReason.CONNECTION_LOST


async def _close(websocket: WebSocket, code: int, reason: str) -> None:
    try:
        await websocket.close(code, reason)
    except (WebSocketDisconnect, RuntimeError):
        return  # the caller was faster


async def _refuse(websocket: WebSocket, error: VoiceError) -> None:
    match error:
        case PlaceRefused():
            retry_s = max(1, -(-error.retry_after_ms // 1000))
            await _deny(websocket, HTTP_STATUS_BY_REFUSAL[error.reason], error.code, str(error), {"Retry-After": str(retry_s)})
        case DuplicateSession():
            await _deny(websocket, 409, error.code, str(error))
        case DirectForbidden() | UnknownTicket():
            await _deny(websocket, 403, error.code, str(error))
        case _:
            await _deny(websocket, 400, error.code, str(error))


async def _deny(websocket: WebSocket, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
    body = {"error": {"code": code, "message": message}}
    await websocket.send_denial_response(JSONResponse(body, status, headers))
