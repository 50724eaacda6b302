"""A call's two directions over connections that come and go: the session waits for its caller, and goes on over the next one.

Both sides number their messages and say which of the other's they have. What the caller has not acknowledged is kept, in bounded
memory, and said again on the next connection; what it says again is taken once. While nobody is there nothing is sent, so an
agent that speaks waits where it is. (requirement C4)
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, cast

import anyio

from protos.switchboard.v1 import voice_pb2 as pb
from runtime.codec.converse_client import ConverseDecoder
from runtime.codec.converse_config import BrokenContract
from runtime.codec.converse_server import ConverseEncoder
from runtime.conversation.ports import Keeper, LinkClosed, Message
from runtime.dialogue.agent_events import AgentEvent, SessionOpened
from runtime.dialogue.caller_events import CallerEvent, Configure, EndOfInput, Goodbye
from runtime.dialogue.session_settings import SessionSettings
from runtime.primitives.reasons import EndReason

__all__ = ["ResumableLink", "ResumeRule", "Wire"]

_TELL_EVERY: Final = 25
"""Messages of a caller that were not acknowledged by what was said anyway: half a second of a microphone."""


@dataclass(frozen=True, slots=True)
class ResumeRule:
    """Attributes:
    grace_s: how long a session waits for its caller to come back.
    slow_s: how long one message may wait for a caller to read, or to acknowledge what fills `most_bytes`; then the connection
        counts as lost.
    most_bytes: of messages that the caller has not acknowledged.
    """

    grace_s: float
    slow_s: float
    most_bytes: int


class Wire(Protocol):
    """One connection of a caller."""

    async def receive(self) -> pb.ConverseRequest | None:
        """The next message; None: the stream has ended without a word. Raises LinkClosed or BrokenContract."""
        ...

    async def send(self, response: pb.ConverseResponse) -> None:
        """Waits while the caller does not read. Raises LinkClosed. After a cancel the connection may only be dropped."""
        ...


@dataclass(slots=True, eq=False)
class _Connection:
    wire: Wire
    sent: int
    """Ordinal of the last message that was written here, or that the caller had before."""
    gone: anyio.Event = field(default_factory=anyio.Event)
    receiving: anyio.CancelScope | None = None
    sending: anyio.CancelScope | None = None
    is_confirmed: bool = False


class ResumableLink:
    """As the port, with one conversation behind it. `carry` is called for each connection, by whoever owns that.

    Attributes:
        fault: what the caller did wrong where the session ended by that.
        over: why the session ended; None while it lives.
    """

    frames_per_message = 1.0
    numbered = 0

    def __init__(
        self,
        settings: SessionSettings,
        rule: ResumeRule,
        token: Callable[[], str],
        on_away: Callable[[], bool],
        on_confirmed: Callable[[], None],
    ) -> None:
        """`token` makes one for the first message; `on_away`: a caller is lost, answers whether the session may wait;
        `on_confirmed`: the caller speaks on a new connection."""
        self.keeper: Keeper | None = None
        self.applied = self.receiving = 0
        self.fault = ""
        self.over: EndReason | None = None
        self._rule = rule
        self._token = token
        self._on_away = on_away
        self._on_confirmed = on_confirmed
        self._decoder = ConverseDecoder(settings)
        self._encoder = ConverseEncoder(settings)
        self._waiting: deque[CallerEvent] = deque([Configure(settings)])
        self._is_ending = False
        self._kept: deque[tuple[pb.ConverseResponse, int]] = deque()
        self._kept_bytes = 0
        self._trimmed = anyio.Event()
        self._told_received = 1
        self._connection: _Connection | None = None
        self._came = anyio.Event()
        self._until = math.inf
        self._writing = anyio.Lock()

    @property
    def received(self) -> int:
        """Ordinal of the caller's last message that came."""
        return self._decoder.heard

    @property
    def said(self) -> int:
        """Ordinal of the last message for the caller."""
        return self._encoder.told[0]

    @property
    def is_away(self) -> bool:
        return self._connection is None and self.over is None

    async def carry(self, wire: Wire, received: int = 0, greeting: pb.ConverseResponse | None = None) -> None:
        """Goes on over this connection until it is lost, another one takes its place, or the session is over.

        `received`: what the caller has, at most `said`. `greeting` goes before everything else. A connection that was there
        before is left: its caller lost it, whether we have noticed or not.
        """
        self._leave(self._connection)
        connection = _Connection(wire, received)
        try:
            async with self._writing:
                if self.over is not None:
                    return
                self._leave(self._connection)  # who came back while this one waited is the one that is lost now
                self._trim(received)
                self._connection, self._until = connection, math.inf
                self._came.set()
                self._came = anyio.Event()
            if greeting is not None:
                greeting.received = self.received
                await self._write(connection, [greeting])
            await self._flush(connection)
            await connection.gone.wait()
        finally:
            self._lose(connection)

    def end(self, reason: EndReason) -> None:
        """The session is over: `carry` returns."""
        self.over = reason
        self._leave(self._connection)

    async def receive(self) -> CallerEvent:
        while not self._waiting:
            if (request := await self._request()) is None:
                return Goodbye(after_reply=True)
            try:
                event = self._decoder.decode(request)
            except BrokenContract as error:
                raise self._broken(error) from None
            self._is_ending = self._is_ending or isinstance(event, EndOfInput)
            follow_up = self._decoder.follow_up(event)
            self._waiting.extend([event] if follow_up is None else [event, follow_up])
            self.receiving += 1
        event = self._waiting.popleft()
        if not self._waiting:
            self.applied = self.receiving
        return event

    def encode(self, event: AgentEvent) -> Sequence[Message]:
        if isinstance(event, SessionOpened):
            event = replace(event, resume_token=self._token())
        messages = self._encoder.encode(event)
        for message in messages:
            if message.HasField("started"):
                message.started.resume_within_ms = round(self._rule.grace_s * 1000)
        return messages

    async def send(self, messages: Sequence[Message]) -> None:
        for message in cast(Sequence[pb.ConverseResponse], messages):
            size = message.ByteSize()
            self._kept.append((message, size))
            self._kept_bytes += size
        while True:
            connection = self._connection or await self._present()
            if await self._flush(connection) and await self._has_room(connection):
                return

    async def _request(self) -> pb.ConverseRequest | None:
        """The next one that is new; None: nothing more will be said."""
        while True:
            connection = self._connection or await self._present()
            request = None
            with anyio.CancelScope() as connection.receiving:
                try:
                    request = await connection.wire.receive()
                except BrokenContract as error:
                    raise self._broken(error) from None
                except LinkClosed as closed:
                    if closed.reason is not EndReason.CONNECTION_LOST:
                        raise
            if request is None:
                if self._is_ending and not connection.gone.is_set():
                    return None
                self._lose(connection)
                continue
            if not connection.is_confirmed:
                connection.is_confirmed = True
                self._on_confirmed()
            if request.received > self.said:
                raise self._broken(BrokenContract(f"received is {request.received}; allowed: at most {self.said}, the last"))
            self._trim(request.received)
            if request.WhichOneof("payload") is None and not request.ordinal:
                continue  # an acknowledgement
            if not request.ordinal:
                raise self._broken(BrokenContract("ordinal is 0; a resumable session's messages are numbered from config's 1"))
            if request.ordinal <= self.received:
                continue  # said again, and had before
            if request.ordinal - self._told_received >= _TELL_EVERY and not self._writing.locked():
                self._told_received = request.ordinal - 1
                await self._write(connection, [pb.ConverseResponse(received=request.ordinal - 1)])
            return request

    def _broken(self, error: BrokenContract) -> LinkClosed:
        self.fault = str(error)
        return LinkClosed(EndReason.PROTOCOL_ERROR)

    async def _present(self) -> _Connection:
        """Waits for the caller to come back. Raises LinkClosed when that took too long."""
        while self._connection is None:
            with anyio.CancelScope(deadline=self._until):
                await self._came.wait()
            if anyio.current_time() >= self._until:  # never so once somebody came
                raise LinkClosed(EndReason.CONNECTION_LOST)
        return self._connection

    async def _flush(self, connection: _Connection) -> bool:
        """Writes what this connection has not had. False: it is lost."""
        return await self._write(connection, None)

    async def _write(self, connection: _Connection, messages: Sequence[pb.ConverseResponse] | None) -> bool:
        async with self._writing:
            if self._connection is not connection:
                return False
            with anyio.CancelScope() as connection.sending:
                try:
                    for message in self._unsaid(connection) if messages is None else messages:
                        connection.sending.deadline = anyio.current_time() + self._rule.slow_s
                        if message.ordinal:
                            message.received = self._told_received = self.received
                        await connection.wire.send(message)
                        connection.sent = max(connection.sent, message.ordinal)
                    return True
                except LinkClosed:
                    pass
        self._lose(connection)
        return False

    def _unsaid(self, connection: _Connection) -> list[pb.ConverseResponse]:
        return [message for message, _ in self._kept if message.ordinal > connection.sent]

    async def _has_room(self, connection: _Connection) -> bool:
        """Waits for acknowledgements where too much is kept. False: none came, and the connection is lost."""
        with anyio.CancelScope(deadline=anyio.current_time() + self._rule.slow_s):
            while self._kept_bytes > self._rule.most_bytes and self._connection is connection:
                await self._trimmed.wait()
        if self._kept_bytes <= self._rule.most_bytes:
            return True
        self._lose(connection)
        return False

    def _trim(self, received: int) -> None:
        if self._kept and self._kept[0][0].ordinal <= received:
            while self._kept and self._kept[0][0].ordinal <= received:
                self._kept_bytes -= self._kept.popleft()[1]
            self._trimmed.set()
            self._trimmed = anyio.Event()

    def _lose(self, connection: _Connection) -> None:
        if self._connection is connection:
            self._leave(connection)
            if self.over is None:
                self._until = anyio.current_time() + (self._rule.grace_s if self._on_away() else 0.0)
                self._came.set()  # whoever waits has a deadline now
                self._came = anyio.Event()

    def _leave(self, connection: _Connection | None) -> None:
        if connection is None:
            return
        self._connection = None
        connection.gone.set()
        for scope in (connection.receiving, connection.sending):
            if scope is not None:
                scope.cancel()
        self._trimmed.set()
        self._trimmed = anyio.Event()
