"""`VoiceAgent/Converse` at the balancer: a gRPC call that is relayed, and outlives its runtime like every relayed call.

The caller's side is the stream, unread bytes for messages; the runtime's side is a WebSocket to `/v1/converse`, where the very
same messages travel one a frame. So everything that makes a call outlive its runtime is the relay's, and known to it alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, NoReturn, Protocol, TypeAlias

import anyio
import grpc
from grpc import aio
from structlog.typing import FilteringBoundLogger

from balancer.front.dial import RuntimeConnection
from balancer.front.grpc_caller import GrpcCaller, StreamClosed
from balancer.front.grpc_needs import Asked, asked_by, returning, upgrade_of
from balancer.front.grpc_refusal import CallerLeft, refuse, refuse_placement
from balancer.front.message_frames import client_frame
from balancer.front.places import Places
from balancer.front.relayed_calls import RelayedCalls
from balancer.front.responses import HttpError
from balancer.front.upgrade import Upgrade
from balancer.placement.errors import PlacementRefused, RefusalCode
from balancer.placement.placement import Placement
from balancer.placement.reservation import Door
from runtime.wire.headers import RECEIVED_HEADER, RESUME_HEADER, RUNTIME_HEADER, SESSION_HEADER

__all__ = ["GrpcDoor"]

_Context: TypeAlias = aio.ServicerContext[bytes, bytes]
_STATUSES: Final = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
}
_RETRY_MS: Final = 1_000


class RelayFront(Protocol):
    """The public port, as far as this door needs it."""

    calls: RelayedCalls

    @property
    def is_full(self) -> bool: ...

    def reach(self, upgrade: Upgrade, placement: Placement) -> Awaitable[tuple[Placement, RuntimeConnection]]: ...

    def refused(self, refused: PlacementRefused) -> None: ...

    def bad_request(self) -> None: ...


class GrpcDoor:
    """`handler` is what a gRPC server is given. `first_message_s`: how long a caller has for its configuration;
    `new_nonce`: 16 bytes, as `upgrade_of` has them."""

    def __init__(
        self,
        placer: Places,
        front: RelayFront,
        first_message_s: float,
        new_session_id: Callable[[], str],
        new_nonce: Callable[[], bytes],
        log: FilteringBoundLogger,
    ) -> None:
        self._placer = placer
        self._front = front
        self._first_message_s = first_message_s
        self._new_session_id = new_session_id
        self._new_nonce = new_nonce
        self._log = log
        method: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(self._converse)  # raw bytes both ways
        self.handler = grpc.method_handlers_generic_handler("switchboard.v1.VoiceAgent", {"Converse": method})

    async def _converse(self, _requests: object, context: _Context) -> None:
        try:
            await self._serve(context)
        except aio.AbortError:
            raise
        except CallerLeft:
            return
        except Exception:
            self._log.exception("a gRPC caller's call failed")
            await context.abort(grpc.StatusCode.INTERNAL, "a fault of ours")

    async def _serve(self, context: _Context) -> None:
        stream = _Stream(context)
        if await self._is_back(context, stream):
            return
        if self._front.is_full:
            error = HttpError(503, "too_many_connections", "too many connections")
            await refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, error, _RETRY_MS)
        first, asked = await self._asked(context, stream)
        calls = self._front.calls
        upgrade = upgrade_of(asked, self._new_nonce())
        try:
            placement, runtime = await self._front.reach(upgrade, await self._placer.place(asked.request, Door.RELAY))
        except HttpError as error:
            await self._refuse(context, error)
        except PlacementRefused as refused:
            self._front.refused(refused)
            await refuse_placement(context, refused)
        try:
            if runtime.transport.is_closing():
                lost = HttpError(503, "runtime_lost", "the runtime left")
                await refuse(context, grpc.StatusCode.UNAVAILABLE, lost, _RETRY_MS)
            names = ((SESSION_HEADER, placement.session_id), (RUNTIME_HEADER, placement.runtime_id))
            await context.send_initial_metadata(names)
            if placement.session_id in calls:  # the same place was given twice, and the other caller was quicker
                live = HttpError(409, RefusalCode.SESSION_LIVE.value, "the session id is in use")
                await refuse(context, grpc.StatusCode.ALREADY_EXISTS, live)
        except BaseException:
            runtime.transport.abort()
            raise
        caller = GrpcCaller(stream)
        calls.begin(upgrade, placement, caller, client_frame(first), runtime, resume_key=asked.resume_key)
        await caller.run()
        await _say(context, *caller.status)

    async def _is_back(self, context: _Context, stream: _Stream) -> bool:
        """Whether the caller came back to its call, and is gone again now."""
        calls, caller = self._front.calls, GrpcCaller(stream)
        try:
            comes = returning(context.invocation_metadata() or ())
            if comes is None:
                return False
            calls.come_back(comes, None, caller, b"")
        except HttpError as error:
            await self._refuse(context, error)
        relay = calls.get(comes.session_id)
        assert relay is not None, "it came back to it"
        names = (
            (SESSION_HEADER, comes.session_id),
            (RUNTIME_HEADER, relay.runtime.runtime_id),
            (RECEIVED_HEADER, str(relay.caller.borders.messages)),
        )
        await caller.run(partial(context.send_initial_metadata, names))
        await _say(context, *caller.status)
        return True

    async def _asked(self, context: _Context, stream: _Stream) -> tuple[bytes, Asked]:
        metadata = list(context.invocation_metadata() or ())
        if any(name == RESUME_HEADER for name, _ in metadata):
            text = "a call comes back to the runtime that it talked to, and not through a balancer"
            await self._refuse(context, HttpError(403, "forged_resume_token", text))
        first = None
        try:
            with anyio.fail_after(self._first_message_s):
                first = await stream.read()
        except TimeoutError:
            text = "no configuration came; it is the first message"
            await refuse(context, grpc.StatusCode.DEADLINE_EXCEEDED, HttpError(408, "request_timeout", text))
        try:
            return first or b"", asked_by(metadata, first or b"", self._new_session_id)
        except HttpError as error:
            await self._refuse(context, error)

    async def _refuse(self, context: _Context, error: HttpError) -> NoReturn:
        self._front.bad_request()
        await refuse(context, _STATUSES[error.status], error)


class _Stream:
    """The caller's messages as grpc has them; see `MessageStream`."""

    def __init__(self, context: _Context) -> None:
        self._context = context

    async def read(self) -> bytes | None:
        message: Any = await self._context.read()  # Any: the stubs do not know grpc's mark for the end
        return message if isinstance(message, bytes) else None

    async def write(self, message: bytes) -> None:
        try:
            await self._context.write(message)
        except (aio.BaseError, grpc.RpcError) as error:
            raise StreamClosed from error


async def _say(context: _Context, status: str, text: str) -> None:
    if status != "OK":
        try:
            await context.abort(grpc.StatusCode[status], text)
        except aio.InternalError:
            return  # nobody is there
