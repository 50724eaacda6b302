"""The closing handshake of a relayed call: who was told, who still owes an answer, and until when (RFC 6455 section 7)."""

from __future__ import annotations

from typing import Protocol

from balancer.front.relay_leg import Leg
from balancer.front.relay_rule import RelayRule
from runtime.primitives.clock import NS_PER_MS
from runtime.wire.websocket_frames import CLOSE

__all__ = ["Goodbye"]


class ClosingCall(Protocol):
    caller: Leg
    runtime: Leg
    rule: RelayRule

    def now_ns(self) -> int: ...

    def write_control(self, leg: Leg, opcode: int, payload: bytes) -> None: ...

    def call_is_over(self) -> None: ...


class Goodbye:
    """One call's."""

    __slots__ = ("_call", "by_ns")

    def __init__(self, call: ClosingCall) -> None:
        self._call = call
        self.by_ns: int | None = None
        """A close is under way, and is over by then."""

    def say(self, leg: Leg, payload: bytes) -> None:
        """A close frame to `leg`, once."""
        call = self._call
        if not leg.sent_close and not leg.is_gone:
            call.write_control(leg, CLOSE, payload)
            leg.sent_close = True
            # RFC 6455 section 5.5.1: no data after a close.
            (call.runtime if leg is call.caller else call.caller).is_sending = False

    def begin(self) -> None:
        call = self._call
        if self.by_ns is None:
            self.by_ns = call.now_ns() + call.rule.close_timeout_ms * NS_PER_MS
        call.call_is_over()
        # A close frame must be heard even where back-pressure had stopped the reading; what is read else goes nowhere.
        for leg in (call.caller, call.runtime):
            if not leg.is_sending:
                leg.resume_reading()

    def finish_if_done(self) -> None:
        """Ends the connections once nobody owes a close frame. The caller's is flushed first."""
        legs = (self._call.caller, self._call.runtime)
        if all(leg.is_done for leg in legs):
            for leg in legs:
                if not leg.transport.is_closing():
                    leg.transport.close()
