"""One relayed call: two legs, raw bytes between them, and the relay's rules (docs/decisions).

    caller --(masked, may fragment)--> relay --> runtime        whole data frames, unchanged and still masked
    caller <-- relay <--(unmasked, never fragmented)-- runtime  whole data frames, unchanged

Ping and pong never cross: the relay answers and probes each side itself. A close crosses. What happens when a side goes:

    caller closes properly            its close is forwarded, the runtime's answer too, then both connections end
    runtime closes properly           the same in the other direction
    caller gone without a close       the runtime's connection is aborted, so that it sees a lost connection
    runtime gone without a close      the caller gets 1012
    caller breaks the protocol        both get a close with the failure's code
    runtime breaks the protocol       its connection is aborted, the caller gets 1011 (1009 for an oversized frame)
    caller does not read              its connection is aborted after a bound, the runtime gets 1008 "slow_caller"

Memory of a call: at most one frame held for each direction, and in each transport the high-water mark plus one read and one
frame. All methods are event-loop callbacks; none blocks.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from balancer.front.relay_leg import Leg
from runtime.primitives.clock import NS_PER_MS, Clock
from runtime.wire.close_codes import SLOW_CALLER_CLOSE
from runtime.wire.websocket_frames import (
    CLOSE,
    PING,
    PONG,
    BorderFailure,
    ControlFrame,
    FrameBorders,
    build_frame,
    close_payload,
    parse_close,
)

__all__ = ["HIGH_WATER_BYTES", "LOW_WATER_BYTES", "Relay", "RelayEnd", "RelayOwner", "RelayRule"]

HIGH_WATER_BYTES: Final = 65_536
"""Above this a transport's write buffer pauses the other side's reading. One second of 24 kHz PCM in base64 is 64 KiB."""
LOW_WATER_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class RelayRule:
    max_frame_bytes: int = 1_048_576
    probe_after_ms: int = 20_000
    dead_after_ms: int = 20_000
    stalled_after_ms: int = 10_000
    close_timeout_ms: int = 5_000


class RelayEnd(StrEnum):
    """Why a relayed call ended, as the relay saw it."""

    CALLER_CLOSED = "caller_closed"
    RUNTIME_CLOSED = "runtime_closed"
    CALLER_LOST = "caller_lost"
    RUNTIME_LOST = "runtime_lost"
    CALLER_BROKE_PROTOCOL = "caller_broke_protocol"
    RUNTIME_BROKE_PROTOCOL = "runtime_broke_protocol"
    CALLER_STALLED = "caller_stalled"
    SHUT_DOWN = "shut_down"


class RelayOwner(Protocol):
    clock: Clock

    def mask_key(self) -> bytes:
        """Four fresh bytes for a frame of ours towards a runtime."""
        ...

    def relay_ended(self, relay: Relay) -> None:
        """Both connections are gone. Called once."""
        ...


class Relay:
    def __init__(
        self,
        owner: RelayOwner,
        rule: RelayRule,
        session_id: str,
        runtime_id: str,
        caller: asyncio.Transport,
        runtime: asyncio.Transport,
    ) -> None:
        now_ns = owner.clock.now_ns()
        self.owner = owner
        self.rule = rule
        self.session_id = session_id
        self.runtime_id = runtime_id
        self.began_ns = now_ns
        self.end: RelayEnd | None = None
        self.caller = Leg(self, caller, FrameBorders(is_masked=True, max_frame_bytes=rule.max_frame_bytes), now_ns)
        self.runtime = Leg(
            self, runtime, FrameBorders(is_masked=False, max_frame_bytes=rule.max_frame_bytes, may_fragment=False), now_ns
        )
        self.caller.other, self.runtime.other = self.runtime, self.caller
        self._close_by_ns: int | None = None
        for leg in (self.caller, self.runtime):
            leg.transport.set_write_buffer_limits(high=HIGH_WATER_BYTES, low=LOW_WATER_BYTES)
            leg.transport.set_protocol(leg)

    @property
    def buffered_bytes(self) -> int:
        legs = [leg for leg in (self.caller, self.runtime) if not leg.is_gone]
        return sum(leg.borders.buffered_bytes + leg.transport.get_write_buffer_size() for leg in legs)

    @property
    def paused_directions(self) -> int:
        return sum(leg.paused_ns is not None for leg in (self.caller, self.runtime))

    def attend(self, leg: Leg) -> None:
        """Control frames or a failure were found in what `leg` sent."""
        controls = leg.borders.controls
        for frame in controls:
            if frame.opcode == PING:
                if leg.paused_ns is None and not leg.sent_close:  # one who floods pings and does not read gets no more pongs
                    self._write_control(leg, PONG, frame.payload)
            elif frame.opcode == CLOSE:
                self._close_came(leg, frame)
        controls.clear()
        failure = leg.borders.failure
        if failure is not None and leg.is_sending:
            self._broke_protocol(leg, failure)

    def now_ns(self) -> int:
        return self.owner.clock.now_ns()

    def silent_end(self, leg: Leg) -> None:
        """`leg` sends nothing more. After its close frame that is as it should be; before, it is lost."""
        if leg.close_payload is not None or not leg.is_sending:
            self._finish_if_done()
            return
        leg.is_sending = False
        if leg is self.caller:
            self._note(RelayEnd.CALLER_LOST)
            self.abort()
        else:
            self._note(RelayEnd.RUNTIME_LOST)
            self._abandon_runtime(1012, "runtime lost")

    def gone(self, leg: Leg) -> None:
        """The connection of `leg` is over."""
        if leg is self.caller and not self.runtime.is_gone:
            if self.runtime.sent_close:
                self.runtime.transport.close()  # flushed first: the runtime must read why it is over
            else:
                self._abort(self.runtime)
        if self.caller.is_gone and self.runtime.is_gone:
            self.owner.relay_ended(self)

    def shut_down(self, code: int, text: str) -> None:
        """Closes both sides with a close frame; bounded by the close time-out."""
        self._note(RelayEnd.SHUT_DOWN)
        self._say_close(self.caller, close_payload(code, text))
        self._say_close(self.runtime, close_payload(code, text))
        self._begin_closing()

    def abort(self) -> None:
        self._abort(self.runtime)
        self._abort(self.caller)

    def tend(self, now_ns: int) -> None:
        """Time passed: probes, deadlines. Call about once a second."""
        if self._close_by_ns is not None:
            if now_ns >= self._close_by_ns:
                self.abort()
            return
        rule = self.rule
        for leg in (self.caller, self.runtime):
            if leg.paused_ns is not None and now_ns - leg.paused_ns > rule.stalled_after_ms * NS_PER_MS:
                self._dead(leg, RelayEnd.CALLER_STALLED)
                return
            if leg.heard or leg.other.paused_ns is not None:  # not heard because we do not read: no sign of death
                leg.heard = False
                leg.silent_ns, leg.probed_ns = now_ns, None
            elif leg.probed_ns is not None:
                if now_ns - leg.probed_ns > rule.dead_after_ms * NS_PER_MS:
                    self._dead(leg, RelayEnd.CALLER_LOST)
                    return
            elif now_ns - leg.silent_ns > rule.probe_after_ms * NS_PER_MS and leg.paused_ns is None:
                leg.probed_ns = now_ns
                self._write_control(leg, PING, b"")

    def _close_came(self, leg: Leg, frame: ControlFrame) -> None:
        leg.close_payload = frame.payload
        if not leg.is_sending:
            self._finish_if_done()
            return
        leg.is_sending = False
        if parse_close(frame.payload) is None:
            self._broke_protocol(leg, BorderFailure(1002, "a close payload that may not be sent"))
            return
        self._note(RelayEnd.CALLER_CLOSED if leg is self.caller else RelayEnd.RUNTIME_CLOSED)
        self._say_close(leg.other, frame.payload)
        self._begin_closing()
        self._finish_if_done()

    def _broke_protocol(self, leg: Leg, failure: BorderFailure) -> None:
        leg.is_sending = False
        leg.is_mute = True
        if leg is self.caller:
            self._note(RelayEnd.CALLER_BROKE_PROTOCOL)
            payload = close_payload(failure.close_code, failure.text)
            self._say_close(self.caller, payload)
            self._say_close(self.runtime, payload)
            self._begin_closing()
        else:
            self._note(RelayEnd.RUNTIME_BROKE_PROTOCOL)
            code = failure.close_code if failure.close_code == 1009 else 1011
            self._abandon_runtime(code, "the runtime broke the protocol")

    def _abandon_runtime(self, code: int, text: str) -> None:
        self.runtime.is_sending = False
        self.caller.is_sending = False
        self._abort(self.runtime)
        # A caller that had said goodbye gets its answer from us.
        said = self.caller.close_payload
        self._say_close(self.caller, close_payload(code, text) if said is None else said)
        self._begin_closing()
        self._finish_if_done()

    def _dead(self, leg: Leg, end: RelayEnd) -> None:
        if leg is self.caller:
            self._note(end)
            if end is RelayEnd.CALLER_STALLED:
                self._say_close(self.runtime, close_payload(*SLOW_CALLER_CLOSE))
                self._begin_closing()
                self._abort(self.caller)
            else:
                self.abort()
        else:
            self._note(RelayEnd.RUNTIME_LOST)
            self._abandon_runtime(1012, "runtime lost")

    def _say_close(self, leg: Leg, payload: bytes) -> None:
        if not leg.sent_close and not leg.is_gone:
            self._write_control(leg, CLOSE, payload)
            leg.sent_close = True
            leg.other.is_sending = False  # RFC 6455 section 5.5.1: no data after a close

    def _begin_closing(self) -> None:
        if self._close_by_ns is None:
            self._close_by_ns = self.owner.clock.now_ns() + self.rule.close_timeout_ms * NS_PER_MS
        # A close frame must be heard even where back-pressure had stopped the reading; what is read else goes nowhere.
        for leg in (self.caller, self.runtime):
            if not leg.is_sending and not leg.transport.is_closing():
                leg.transport.resume_reading()

    def _finish_if_done(self) -> None:
        """Ends the connections once nobody owes a close frame. The caller's is flushed first."""
        legs = (self.caller, self.runtime)
        if all(leg.is_done for leg in legs):
            for leg in legs:
                if not leg.transport.is_closing():
                    leg.transport.close()

    def _write_control(self, leg: Leg, opcode: int, payload: bytes) -> None:
        if not leg.transport.is_closing():
            key = b"" if leg is self.caller else self.owner.mask_key()
            leg.transport.write(build_frame(opcode, payload, key))

    def _abort(self, leg: Leg) -> None:
        if not leg.is_gone:  # also one that is closing and waits for its buffer to be read
            leg.transport.abort()

    def _note(self, end: RelayEnd) -> None:
        if self.end is None:
            self.end = end
