"""What every WebSocket wire of a runtime shares: from an upgrade to a place, from a place to a call, from a call to its close.

A refusal is an HTTP answer before the upgrade, so that no client sees a call that never was.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import anyio
from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect
from structlog.typing import FilteringBoundLogger

from runtime.codec.checkpoint_message import KeptSession
from runtime.conversation.calls import Calls
from runtime.dialogue.session_settings import SessionSettings
from runtime.primitives.errors import VoiceError
from runtime.primitives.reasons import EndReason
from runtime.session.ledger import DuplicateSession, Leg, UnknownTicket
from runtime.transport.asides import ASIDES_KEY
from runtime.transport.kept_call import adopted, kept_call
from runtime.transport.place import DirectForbidden, PlaceRefused, Places, SessionsDiffer
from runtime.transport.ticket_check import Presented
from runtime.transport.websocket_link import WebSocketLink
from runtime.wire.close_codes import HTTP_STATUS_BY_REFUSAL, WEBSOCKET_CLOSE_BY_END
from runtime.wire.headers import RUNTIME_HEADER, SESSION_HEADER, TENANT_HEADER, TICKET_HEADER
from runtime.wire.signed_tickets import TicketRefused

__all__ = ["ABORT_KEY", "WebSocketDoor", "deny", "hang_up", "presented"]

T = TypeVar("T")

ABORT_KEY: Final = "switchboard_abort"
"""In the connection's state: drops the socket at once. The only way to be rid of a caller that never reads."""
_LONGEST_REASON_BYTES: Final = 123
_CLOSE_S: Final = 2.0
"""How long a close may wait for a caller that does not read, before the socket is dropped."""


class WebSocketDoor:
    """The way in and out of a call over WebSocket. Order: `agent_of`, `admit`, `accept`, `first` if need be, `serve`."""

    def __init__(self, calls: Calls, places: Places, runtime_id: str, log: FilteringBoundLogger) -> None:
        self._calls = calls
        self._log = log
        self._places = places
        self._runtime_id = runtime_id

    async def agent_of(self, websocket: WebSocket, named: str | None = None) -> str | None:
        """The agent that the upgrade names (by its query, where the wire has no other place), or the default one.

        None: it was refused.
        """
        agent = (websocket.query_params.get("model") if named is None else named) or self._calls.default_agent
        if agent in self._calls.agent_names:
            return agent
        served = ", ".join(sorted(self._calls.agent_names))
        await deny(websocket, 404, "unknown_agent", f"the agent is {agent[:64]!r}; served: {served}")
        return None

    async def admit(self, websocket: WebSocket, agent: str) -> Leg | None:
        """The caller's place. None: it was refused."""
        try:
            peer_host = websocket.client.host if websocket.client else ""
            return self._places.take(presented(websocket), agent=agent, peer_host=peer_host)
        except VoiceError as error:
            await _refuse(websocket, error)
            return None

    async def accept(self, websocket: WebSocket, leg: Leg | None, subprotocols: Sequence[str], session_id: str = "") -> None:
        """Completes the upgrade with the first of `subprotocols` that the client offers, or none: another may be a key.

        Without a leg of its own, it is a connection more of the session.
        """
        session_id = session_id if leg is None else leg.session_id
        offered = websocket.scope["subprotocols"]
        subprotocol = next((name for name in subprotocols if name in offered), None)
        headers = [(SESSION_HEADER.encode(), session_id.encode()), (RUNTIME_HEADER.encode(), self._runtime_id.encode())]
        try:
            await websocket.accept(subprotocol, headers)
        except BaseException:
            if leg is not None:
                self._calls.abandon(leg)
            raise

    async def serve(self, websocket: WebSocket, leg: Leg, settings: SessionSettings, link: WebSocketLink) -> None:
        """Holds the call until it is over, and closes. Behind a relay it may go on elsewhere."""
        kept = kept_call(websocket, leg, link, self._log)
        reason = await self._calls.serve(leg, settings, link, kept)
        await hang_up(websocket, reason, link.close_reason)

    async def adopt(self, websocket: WebSocket, leg: Leg, again: Callable[[KeptSession], WebSocketLink]) -> None:
        """In place of `serve`, for a leg that goes on with a session: `again` makes the wire anew from what was kept of it."""
        adoption = await adopted(websocket, leg, again, self._log)
        if adoption is None:
            self._calls.abandon(leg)
            await hang_up(websocket, EndReason.HANDLER_ERROR, "the session cannot go on here")
            return
        kept, settings = adoption
        reason = await self._calls.serve(leg, settings, kept.link, kept)
        await hang_up(websocket, reason, kept.link.close_reason)

    async def first(
        self, websocket: WebSocket, leg: Leg, read: Awaitable[T], within_s: float, missing: str, broken: type[Exception]
    ) -> T | None:
        """What a wire has to be told before it can `serve`. None: it was not, and the caller is gone or turned away.

        `missing`: what the close says where nothing came in time; `broken`: what `read` raises where the wire's rules are.
        """
        reason, text = EndReason.NEVER_SPOKE, missing
        try:
            with anyio.fail_after(within_s):
                return await read
        except TimeoutError:
            pass
        except broken as error:
            reason, text = EndReason.PROTOCOL_ERROR, str(error)
        except WebSocketDisconnect:
            reason = EndReason.CONNECTION_LOST
        except BaseException:
            self._calls.abandon(leg)
            raise
        self._calls.abandon(leg)
        await hang_up(websocket, reason, text)
        return None


def presented(websocket: WebSocket) -> Presented:
    """Raises SessionsDiffer. Of two tickets the header's counts: a relay's stands there, and its caller wrote the query."""
    headers, query = websocket.headers, websocket.query_params
    session_ids = {*headers.getlist(SESSION_HEADER), *query.getlist("session_id")} - {""}
    if len(session_ids) > 1:
        raise SessionsDiffer(f"{SESSION_HEADER} and the query")
    return Presented(
        ticket=headers.get(TICKET_HEADER) or query.get("ticket", ""),
        session_id=next(iter(session_ids), ""),
        tenant=headers.get(TENANT_HEADER) or query.get("tenant", ""),
    )


async def hang_up(websocket: WebSocket, reason: EndReason | None, text: str = "") -> None:
    """Closes as the end asks, in bounded time; None: the call goes on elsewhere, without a word. Where the caller has closed
    already, nothing is left to do. Who does not read does not read a close either; a relay before it does, and has to."""
    is_kept = websocket.scope["state"].get(ASIDES_KEY) is not None
    if reason not in (EndReason.CONNECTION_LOST, None) and (is_kept or reason is not EndReason.SLOW_CALLER):
        with anyio.move_on_after(_CLOSE_S):
            await _close(websocket, WEBSOCKET_CLOSE_BY_END[reason], _fitting(text or reason.value))
            return
    abort: Callable[[], None] = websocket.scope["state"][ABORT_KEY]
    abort()


def _fitting(text: str) -> str:
    """RFC 6455 section 5.5: a control frame has at most 125 bytes, two of them the code."""
    return text.encode()[:_LONGEST_REASON_BYTES].decode(errors="ignore")


async def _close(websocket: WebSocket, code: int, reason: str) -> None:
    try:
        await websocket.close(code, reason)
    except (WebSocketDisconnect, RuntimeError):
        return  # the caller was faster


async def _refuse(websocket: WebSocket, error: VoiceError) -> None:
    match error:
        case PlaceRefused():
            retry_s = max(1, -(-error.retry_after_ms // 1000))
            await deny(websocket, HTTP_STATUS_BY_REFUSAL[error.reason], error.code, str(error), {"Retry-After": str(retry_s)})
        case DuplicateSession():
            await deny(websocket, 409, error.code, str(error))
        case DirectForbidden() | UnknownTicket() | TicketRefused():
            await deny(websocket, 403, error.code, str(error))
        case _:
            await deny(websocket, 400, error.code, str(error))


async def deny(websocket: WebSocket, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
    """Answers the upgrade with a plain HTTP error."""
    body = {"error": {"code": code, "message": message}}
    await websocket.send_denial_response(JSONResponse(body, status, headers))
