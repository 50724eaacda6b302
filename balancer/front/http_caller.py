"""A caller's connection until it is upgraded or answered: the request's head and body, strictly bounded."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, Protocol, cast

import anyio

from balancer.front.head_check import head_fault
from balancer.front.request_head import BadHead, RequestHead, can_begin, read_head
from balancer.front.responses import HttpError, error_response, refusal_response
from balancer.placement.errors import PlacementRefused

__all__ = ["MAX_BODY_BYTES", "MAX_HEAD_BYTES", "CallerOwner", "HttpCaller", "WholeRequest"]

MAX_HEAD_BYTES: Final = 16_384
MAX_BODY_BYTES: Final = 65_536
_MAX_EARLY_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class WholeRequest:
    head: RequestHead
    body: bytes

    @property
    def wants_upgrade(self) -> bool:
        return b"upgrade" in self.head.values

    @property
    def path(self) -> str:
        return self.head.target.partition(b"?")[0].decode("ascii")


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


class Upgraded(Protocol):
    def refuse(self, error: HttpError) -> None: ...


class HttpCaller(asyncio.Protocol):
    """One request a connection. Nothing is read twice, and after the answer nothing is read at all."""

    __slots__ = (
        "_early",
        "_head",
        "_owner",
        "_received",
        "answered_ns",
        "began_ns",
        "is_answered",
        "is_over_limit",
        "is_whole",
        "opening",
        "scope",
        "transport",
    )

    def __init__(self, owner: CallerOwner) -> None:
        self._owner = owner
        self._received = b""
        """Of the head, until that is whole; then of the body."""
        self._head: RequestHead | None = None
        self._early = b""
        self.transport: asyncio.Transport
        self.began_ns = owner.now_ns()
        self.is_over_limit = False
        self.is_whole = False
        self.is_answered = False
        self.answered_ns: int | None = None
        self.scope: anyio.CancelScope | None = None
        """Of the task that works for this caller; cancelled when it leaves."""
        self.opening: Upgraded | None = None
        """Reads the connection since it was upgraded, where that came before its place."""

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
        self._received += data
        head = self._head or self._read_head(len(self._received) - len(data))
        if head is not None and len(self._received) >= head.body_bytes:
            self.is_whole = True
            body, self._early = self._received[: head.body_bytes], self._received[head.body_bytes :]
            self._received = b""
            self._owner.caller_asked(self, WholeRequest(head, body))

    def eof_received(self) -> bool:
        # A caller that half-closes before its answer still gets a plain answer; an upgrade is pointless then.
        if not self.is_whole:
            self.transport.abort()
        elif self.scope is not None:
            self.scope.cancel()
        return self.is_answered and self.transport.can_write_eof()

    def connection_lost(self, _error: Exception | None) -> None:
        if self.scope is not None:
            self.scope.cancel()
        self._owner.caller_left(self)

    def take_over(self) -> bytes:
        """What came behind the request's head. The reading goes on."""
        early, self._early = self._early, b""
        self.transport.resume_reading()
        return early

    def note_refusal(self) -> None:
        self._owner.bad_request()

    def refuse(self, error: HttpError) -> None:
        self.note_refusal()
        self.answer(error_response(error))

    def turn_away(self, refused: PlacementRefused) -> None:
        self.answer(refusal_response(refused))

    def failed(self, error: HttpError) -> None:
        """A fault of ours."""
        if self.opening is None:
            self.answer(error_response(error))
        else:
            self.opening.refuse(error)

    def hang_up(self, frame: bytes) -> None:
        """In place of an answer, where the connection is upgraded: the last that it is told. It closes, or is closed in time."""
        self.is_answered = True
        self.answered_ns = self._owner.now_ns()
        if not self.transport.is_closing():
            self.transport.write(frame)

    def answer(self, response: bytes) -> None:
        """The one answer; the connection ends after it."""
        if not self.is_answered:
            self.is_answered = True
            self.answered_ns = self._owner.now_ns()
            self._received = self._early = b""
            if not self.transport.is_closing():
                self.transport.write(response)
                self.transport.close()

    def _read_head(self, seen: int) -> RequestHead | None:
        """None: it is not whole, or was refused. What comes behind it stays in `_received`, of which `seen` bytes are not new."""
        received = self._received
        end = received.find(b"\r\n\r\n", max(0, seen - 3)) + 4
        if end < 4:
            fault = head_fault(received, seen)
            if not fault and not can_begin(received[0]):
                fault = "the request is not valid HTTP/1.1"
            if fault:
                self.refuse(HttpError(400, "bad_request", fault))
            elif len(received) > MAX_HEAD_BYTES:
                self._refuse_long()
            return None
        if end > MAX_HEAD_BYTES:
            self._refuse_long()
            return None
        try:
            head = read_head(received[:end])
        except BadHead as bad:
            self.refuse(HttpError(400, "bad_request", head_fault(received, 0) or str(bad)))
            return None
        if b"transfer-encoding" in head.values:
            self.refuse(HttpError(501, "transfer_encoding", "send the body with Content-Length"))
        elif b"expect" in head.values:
            self.refuse(HttpError(417, "expectation_failed", "Expect is not supported"))
        elif head.body_bytes > MAX_BODY_BYTES:
            self.refuse(HttpError(413, "body_too_large", f"the body is above {MAX_BODY_BYTES} bytes"))
        else:
            self._head, self._received = head, received[end:]
        return self._head

    def _refuse_long(self) -> None:
        self.refuse(HttpError(431, "bad_request", f"the head is above {MAX_HEAD_BYTES} bytes"))
