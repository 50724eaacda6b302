"""A caller's connection until it is upgraded or answered: the request's head and body, strictly bounded."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, Protocol, cast

import anyio
import h11

from balancer.front.head_check import head_fault
from balancer.front.responses import HttpError, error_response

__all__ = ["MAX_BODY_BYTES", "MAX_HEAD_BYTES", "CallerOwner", "HttpCaller", "WholeRequest"]

MAX_HEAD_BYTES: Final = 16_384
MAX_BODY_BYTES: Final = 65_536
_MAX_EARLY_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class WholeRequest:
    head: h11.Request
    body: bytes

    @property
    def wants_upgrade(self) -> bool:
        return any(name == b"upgrade" for name, _ in self.head.headers)

    @property
    def path(self) -> str:
        return bytes(self.head.target).partition(b"?")[0].decode("ascii")


class CallerOwner(Protocol):
    def caller_came(self, caller: HttpCaller) -> None: ...

    def caller_asked(self, caller: HttpCaller, request: WholeRequest) -> None:
        """Called once a connection, when the whole request is there."""
        ...

    def caller_left(self, caller: HttpCaller) -> None:
        """Called once, unless a relay took the connection over."""
        ...

    def bad_request(self) -> None: ...

    def now_ns(self) -> int: ...


class HttpCaller(asyncio.Protocol):
    """One request a connection. Nothing is read twice, and after the answer nothing is read at all."""

    def __init__(self, owner: CallerOwner) -> None:
        self._owner = owner
        self._parser = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._received = bytearray()  # until the head is whole
        self._head: h11.Request | None = None
        self._body = bytearray()
        self._early = bytearray()
        self.transport: asyncio.Transport
        self.began_ns = owner.now_ns()
        self.is_over_limit = False
        self.is_whole = False
        self.is_answered = False
        self.answered_ns: int | None = None
        self.scope: anyio.CancelScope | None = None
        """Of the task that works for this caller; cancelled when it leaves."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its class
        self.transport = transport
        self._owner.caller_came(self)

    def data_received(self, data: bytes) -> None:
        if self.is_answered:
            return
        if self.is_whole:  # frames that a hasty client sends before the 101
            self._early += data
            if len(self._early) > _MAX_EARLY_BYTES:
                self.transport.pause_reading()
            return
        if self._head is None:
            seen = len(self._received)
            self._received += data
            fault = head_fault(self._received, seen)
            if fault:
                self.refuse(HttpError(400, "bad_request", fault))
                return
        try:
            self._parser.receive_data(data)
            self._read()
        except h11.RemoteProtocolError as error:
            status = error.error_status_hint if error.error_status_hint in (400, 431, 501) else 400
            self.refuse(HttpError(status, "bad_request", "the request is not valid HTTP/1.1"))

    def eof_received(self) -> bool:
        # A caller that half-closes before its answer still gets a plain answer; an upgrade is pointless then.
        if not self.is_whole:
            self.transport.abort()
        elif self.scope is not None:
            self.scope.cancel()
        return self.is_answered

    def connection_lost(self, _error: Exception | None) -> None:
        if self.scope is not None:
            self.scope.cancel()
        self._owner.caller_left(self)

    def take_early(self) -> bytes:
        """What came behind the request's head. The reading goes on."""
        early = bytes(self._early)
        self._early.clear()
        self.transport.resume_reading()
        return early

    def refuse(self, error: HttpError) -> None:
        self._owner.bad_request()
        self.answer(error_response(error))

    def answer(self, response: bytes) -> None:
        """The one answer; the connection ends after it."""
        if not self.is_answered:
            self.is_answered = True
            self.answered_ns = self._owner.now_ns()
            self._body.clear()
            self._early.clear()
            if not self.transport.is_closing():
                self.transport.write(response)
                self.transport.close()

    def _read(self) -> None:
        while True:
            event = self._parser.next_event()
            if isinstance(event, h11.Request):
                self._head = event
                is_long = self._received.find(b"\r\n\r\n") > MAX_HEAD_BYTES  # h11 bounds only a head that is not whole
                self._received.clear()
                if is_long:
                    self.refuse(HttpError(431, "bad_request", f"the head is above {MAX_HEAD_BYTES} bytes"))
                    return
                self._check_framing(event)
                if self.is_answered:
                    return
            elif isinstance(event, h11.Data):
                self._body += event.data
                if len(self._body) > MAX_BODY_BYTES:
                    self.refuse(HttpError(413, "body_too_large", f"the body is above {MAX_BODY_BYTES} bytes"))
                    return
            elif isinstance(event, h11.EndOfMessage):
                break
            else:  # NEED_DATA, PAUSED, ConnectionClosed
                return
        assert self._head is not None
        self.is_whole = True
        self._early += self._parser.trailing_data[0]
        self._owner.caller_asked(self, WholeRequest(self._head, bytes(self._body)))

    def _check_framing(self, head: h11.Request) -> None:
        """Whatever two servers could read differently is refused before anything else is looked at."""
        names = [name for name, _ in head.headers]
        if b"transfer-encoding" in names:
            self.refuse(HttpError(501, "transfer_encoding", "send the body with Content-Length"))
        elif names.count(b"host") > 1:
            self.refuse(HttpError(400, "bad_request", "Host is given twice"))
        elif b"expect" in names:
            self.refuse(HttpError(417, "expectation_failed", "Expect is not supported"))
