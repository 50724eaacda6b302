"""`VoiceAgent/Converse`: a call over gRPC."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn, TypeAlias, cast

import anyio
import grpc
from grpc import aio

from protos.switchboard.v1 import voice_pb2 as pb
from protos.switchboard.v1 import voice_pb2_grpc
from runtime.codec.converse_client import ConverseDecoder
from runtime.codec.converse_config import BrokenContract, settings_from
from runtime.codec.converse_server import ConverseEncoder
from runtime.codec.orca import orca_report
from runtime.conversation.calls import Calls
from runtime.conversation.ports import Keeper, LinkClosed, Message
from runtime.dialogue.agent_events import AgentEvent, SessionClosed
from runtime.dialogue.caller_events import CallerEvent, Configure, EndOfInput, Goodbye
from runtime.dialogue.session_settings import SessionSettings
from runtime.primitives.errors import Fault, VoiceError
from runtime.primitives.load_snapshot import LoadSnapshot
from runtime.primitives.reasons import EndReason
from runtime.session.ledger import DuplicateSession, UnknownTicket
from runtime.transport.place import DirectForbidden, PlaceRefused, Places, SessionsDiffer
from runtime.transport.resumable_link import ResumableLink
from runtime.transport.resumable_wires import GrpcWire, read_request
from runtime.transport.resume_desk import ResumeDesk, ResumeRefused
from runtime.transport.ticket_check import Presented
from runtime.wire.close_codes import GRPC_STATUS_BY_END, GRPC_STATUS_BY_REFUSAL
from runtime.wire.headers import (
    ORCA_TRAILER,
    REFUSAL_REASON_HEADER,
    RESUME_HEADER,
    RETRY_AFTER_MS_HEADER,
    SESSION_HEADER,
    TENANT_HEADER,
    TICKET_HEADER,
)
from runtime.wire.signed_tickets import TicketRefused

__all__ = ["ConverseService"]

_Context: TypeAlias = aio.ServicerContext[pb.ConverseRequest, pb.ConverseResponse]
_SETTLING_S: Final = 2.0
_TRY_S: Final = 0.01
_NAMES: Final = {"config": "configuration", "resume": "resume"}
_PEER: Final = re.compile(r"ipv[46]:(.*):\d+")


class ConverseService(voice_pb2_grpc.VoiceAgentServicer):
    """One handler a call. A bare end of stream is no goodbye: half-close, cancel and a lost peer look alike to a reader."""

    def __init__(
        self, calls: Calls, places: Places, desk: ResumeDesk, first_message_s: float, snapshot: Callable[[], LoadSnapshot]
    ) -> None:
        self._calls = calls
        self._places = places
        self._desk = desk
        self._first_message_s = first_message_s
        self._snapshot = snapshot

    async def Converse(  # type: ignore[override]  # the stubs know only the generator form
        self,
        request_iterator: object,  # noqa: ARG002  # read() is used instead: a generator must not yield inside a task group
        context: _Context,
    ) -> None:
        metadata = {str(key): str(value) for key, value in context.invocation_metadata() or ()}
        first = await self._first(context, "resume" if metadata.get(RESUME_HEADER) else "config")
        if metadata.get(RESUME_HEADER):
            await self._resume(context, metadata, first.received)
            return
        config = first.config
        try:
            if config.resumable and first.ordinal != 1:
                raise BrokenContract(f"ordinal is {first.ordinal}; a resumable session's messages are numbered from config's 1")
            settings = settings_from(config, self._calls.default_agent)
            leg = self._places.take(_presented(metadata, config), agent=settings.agent, peer_host=_host(context.peer()))
        except BrokenContract as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except VoiceError as error:
            await _refuse(context, error)
        if settings.agent not in self._calls.agent_names:
            self._calls.abandon(leg)
            await context.abort(grpc.StatusCode.NOT_FOUND, f"config.agent is {settings.agent[:64]!r}; not served here")
        try:
            # Otherwise the first message brings it, and a first message that is cut off leaves grpc believing that it has
            # yet to be sent: then neither another message nor the status can be.
            await context.send_initial_metadata(())
        except BaseException:
            self._calls.abandon(leg)
            raise
        if config.resumable and self._desk.is_open:
            wire = GrpcWire(context)
            await self._over(context, wire, await self._desk.begin(leg, settings, wire))
            return
        link = _GrpcLink(context, settings)
        reason = await self._calls.serve(leg, settings, link)
        assert reason is not None, "a call without a keeper goes nowhere"
        await link.settle(reason)
        await self._status(context, reason, link.fault)

    async def _resume(self, context: _Context, metadata: Mapping[str, str], received: int) -> None:
        try:
            shown = Presented(metadata[RESUME_HEADER], metadata.get(SESSION_HEADER, ""), metadata.get(TENANT_HEADER, ""))
            held = self._desk.check(shown)
        except VoiceError as error:
            await _refuse(context, error)
        await context.send_initial_metadata(())
        wire = GrpcWire(context)
        try:
            link = await self._desk.take_up(held, wire, received)
        except BrokenContract as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        await self._over(context, wire, link)

    async def _over(self, context: _Context, wire: GrpcWire, link: ResumableLink) -> None:
        """This connection of a resumable session is done with."""
        if link.over is None or wire.is_stuck:
            await context.abort(grpc.StatusCode.ABORTED, "the session goes on over another connection, or waits for one")
        await self._status(context, link.over, link.fault)

    async def _status(self, context: _Context, reason: EndReason, fault: str) -> None:
        trailers = ((ORCA_TRAILER, orca_report(self._snapshot()).SerializeToString()),)
        context.set_trailing_metadata(trailers)
        status = GRPC_STATUS_BY_END[reason]
        if status != "OK":
            try:
                await context.abort(grpc.StatusCode[status], fault or reason.value, trailers)
            except aio.InternalError:
                return  # a write that the caller never reads is in the way of the status: it gets none until it hangs up

    async def _first(self, context: _Context, kind: str) -> pb.ConverseRequest:
        try:
            with anyio.fail_after(self._first_message_s):
                first = await read_request(context)
        except BrokenContract as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"no {_NAMES[kind]} came; it is the first message")
        if first is None or first.WhichOneof("payload") != kind:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the first message has no {kind}")
        return first


class _GrpcLink:
    """The call's two directions. The configuration is the first valid message; it has come, and is handed on first.

    The end of the stream after `end_of_input` is a half-close: the caller still listens, and the session ends when the running
    reply does. Without it, the end of the stream is a lost connection.
    """

    def __init__(self, context: _Context, settings: SessionSettings) -> None:
        self.keeper: Keeper | None = None  # this wire's calls live and die with their process
        self.frames_per_message = 1.0
        self.numbered = 0
        self.applied = self.receiving = 0
        self._context = context
        self._decoder = ConverseDecoder(settings)
        self._encoder = ConverseEncoder(settings)
        self._next: CallerEvent | None = Configure(settings)
        self._input_has_ended = False
        self._is_writing = False
        self.fault = ""

    async def receive(self) -> CallerEvent:
        if self._next is not None:
            event, self._next = self._next, None
            return event
        try:
            request = await read_request(self._context)
            if request is None:
                if self._input_has_ended:
                    return Goodbye(after_reply=True)
                raise LinkClosed(EndReason.CONNECTION_LOST)
            event = self._decoder.decode(request)
        except BrokenContract as error:
            self.fault = str(error)
            raise LinkClosed(EndReason.PROTOCOL_ERROR) from None
        self._next = self._decoder.follow_up(event)
        self._input_has_ended = self._input_has_ended or isinstance(event, EndOfInput)
        return event

    def encode(self, event: AgentEvent) -> Sequence[Message]:
        return self._encoder.encode(event)

    async def send(self, messages: Sequence[Message]) -> None:
        try:
            for response in cast(Sequence[pb.ConverseResponse], messages):
                self._is_writing = True  # and stays so where the write is cut off
                await self._context.write(response)
                self._is_writing = False
        except (aio.BaseError, grpc.RpcError) as error:
            raise LinkClosed(EndReason.CONNECTION_LOST) from error

    async def settle(self, reason: EndReason) -> None:
        """Before the status. A write that was cut off goes on inside grpc, which can send no status meanwhile and forgets it for
        good: the caller would wait for ever. So the end is said as a message until grpc takes it, which it does in its turn."""
        with anyio.move_on_after(_SETTLING_S):
            while self._is_writing:
                try:
                    await self.send(self.encode(SessionClosed(reason)))
                except LinkClosed as closed:
                    if not isinstance(closed.__cause__, aio.InternalError):
                        return  # nobody is there
                    await anyio.sleep(_TRY_S)


def _presented(metadata: Mapping[str, str], config: pb.SessionConfig) -> Presented:
    """Raises SessionsDiffer."""
    named = metadata.get(SESSION_HEADER, "")
    if named and config.session_id and named != config.session_id:
        raise SessionsDiffer(f"{SESSION_HEADER} and config.session_id")
    return Presented(metadata.get(TICKET_HEADER, ""), config.session_id or named, metadata.get(TENANT_HEADER, ""))


async def _refuse(context: _Context, error: VoiceError) -> NoReturn:
    match error:
        case PlaceRefused():
            trailers = ((REFUSAL_REASON_HEADER, error.reason.value), (RETRY_AFTER_MS_HEADER, str(error.retry_after_ms)))
            await context.abort(grpc.StatusCode[GRPC_STATUS_BY_REFUSAL[error.reason]], str(error), trailers)
        case DuplicateSession():
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, str(error), ((REFUSAL_REASON_HEADER, error.code),))
        case DirectForbidden() | UnknownTicket() | TicketRefused() | ResumeRefused():
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error), ((REFUSAL_REASON_HEADER, error.code),))
    code = grpc.StatusCode.INVALID_ARGUMENT if error.fault is Fault.PEER else grpc.StatusCode.INTERNAL
    await context.abort(code, str(error), ((REFUSAL_REASON_HEADER, error.code),))


def _host(peer: str) -> str:
    """The address part of grpc's peer name; other kinds (unix sockets) are this machine's."""
    matched = _PEER.fullmatch(peer.replace("%5B", "[").replace("%5D", "]"))
    return matched.group(1) if matched else "127.0.0.1"
