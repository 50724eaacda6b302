"""One relayed call: two legs, raw bytes between them, and the relay's rules (docs/decisions).

    caller --(masked, may fragment)--> relay --> runtime        whole data frames, unchanged and still masked
    caller <-- relay <--(unmasked, never fragmented)-- runtime  whole data frames, unchanged

Ping and pong never cross: the relay answers and probes each side itself. A close crosses. What happens when a side goes:

    a side closes properly            its close is forwarded, the other's answer too, then both connections end
    caller gone without a close       the runtime's is aborted: at once, or when who may come back has not (coming_back.py)
    runtime gone without a close      the caller gets 1012
    caller breaks the protocol        both get a close with the failure's code
    runtime breaks the protocol       its connection is aborted, the caller gets 1011 (1009 for an oversized frame)
    caller does not read              its connection is aborted after a bound, the runtime gets 1008 "slow_caller"

Where asides were agreed, a runtime that goes without having said that the session is over takes nothing with it (succession.py).

Bounded: a frame held in each direction, the transports' marks, and what successions and callers who come back may keep. All
methods are event-loop callbacks; none blocks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from balancer.continuity.pulses import Pulses
from balancer.front.coming_back import ComingBack
from balancer.front.goodbye import Goodbye
from balancer.front.leg_watch import LegState, look_at
from balancer.front.relay_leg import Leg
from balancer.front.relay_owner import RelayOwner
from balancer.front.relay_rule import RelayEnd, RelayRule
from balancer.front.succession import Succession
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

__all__ = ["Relay"]


class Relay:
    """`caller` and `runtime` are the two sides; the runtime's may be replaced by the succession."""

    __slots__ = (
        "began_ns", "caller", "coming_back", "end", "goodbye", "owner", "rule", "runtime", "session_id",
        "succession", "telephone",
    )  # fmt: skip

    def __init__(self, owner: RelayOwner, rule: RelayRule, session_id: str, caller: asyncio.Transport) -> None:
        self.owner = owner
        self.rule = rule
        self.session_id = session_id
        self.telephone: tuple[str, str] | None = None
        self.began_ns = now_ns = owner.clock.now_ns()
        self.end: RelayEnd | None = None
        self.caller = Leg(self, caller, FrameBorders(is_masked=True, max_frame_bytes=rule.max_frame_bytes), now_ns)
        self.runtime: Leg
        self.succession: Succession | None = None
        self.coming_back: ComingBack | None = None  # set before `begin`, where the caller asked for it
        self.goodbye = Goodbye(self)

    def begin(self, runtime: Leg, succession: Callable[[Relay], Succession] | None) -> None:
        """Both connections are the relay's from here on. `succession` makes one, where asides were agreed."""
        self.runtime = runtime
        self.caller.forward, runtime.forward = runtime.transport.write, self.to_caller
        self.succession = None if succession is None else succession(self)
        self.caller.take_over()
        runtime.take_over()

    @property
    def server_messages(self) -> int:
        return self.runtime.borders.messages if self.succession is None else self.succession.switch.told

    @property
    def is_closing(self) -> bool:
        """A close is under way, or a side is gone for good."""
        is_there = self.is_awaiting or (self.caller.is_sending and not self.caller.is_gone)
        return self.goodbye.by_ns is not None or not is_there

    @property
    def is_awaiting(self) -> bool:
        """The caller has lost its connection and may come back."""
        return self.coming_back is not None and self.coming_back.away_ns is not None

    @property
    def to_caller(self) -> Callable[[bytes], None]:
        return self.caller.transport.write if self.coming_back is None else self.coming_back.tell

    # What legs tell

    def now_ns(self) -> int:
        return self.owner.clock.now_ns()

    def attend(self, leg: Leg) -> None:
        asides = leg.borders.asides
        if asides:
            leg.borders.asides = []
            assert self.succession is not None  # without one, asides are a breach
            self.succession.heard_asides(leg, asides)
        controls = leg.borders.controls
        # One pong for the last ping (RFC 6455 section 5.5.3), and none for who does not read: a flood is answered once a read.
        ping = next((frame for frame in reversed(controls) if frame.opcode == PING), None)
        if ping is not None and leg.paused_ns is None and not leg.sent_close:
            self.write_control(leg, PONG, ping.payload)
        if controls and controls[-1].opcode == CLOSE:
            self._close_came(leg, controls[-1])
        controls.clear()
        failure = leg.borders.failure
        if failure is not None and leg.is_sending:
            self._broke_protocol(leg, failure)

    def paused(self, leg: Leg) -> None:
        if leg is self.caller:
            self.runtime.pause_reading()
        elif leg is self.runtime:
            self.caller.pause_reading()

    def resumed(self, leg: Leg) -> None:
        if leg is self.caller:
            self.runtime.resume_reading()
        elif leg is self.runtime:
            self.caller.resume_reading()

    def silent_end(self, leg: Leg) -> None:
        """`leg` sends nothing more. After its close frame that is as it should be; before, it is lost."""
        if self._is_aside_of_the_call(leg):
            return
        if leg.close_payload is not None or not leg.is_sending:
            self.goodbye.finish_if_done()
            return
        if leg is self.caller and self._may_come_back():
            return
        leg.is_sending = False
        if leg is self.caller:
            self.note(RelayEnd.CALLER_LOST)
            self.abort()
        else:
            self.runtime_lost(leg, RelayEnd.RUNTIME_LOST, 1012, "runtime lost")

    def gone(self, leg: Leg) -> None:
        """The connection of `leg` is over."""
        if self._is_aside_of_the_call(leg) or (leg is self.caller and self.is_awaiting):
            return
        if leg is self.caller:
            self.call_is_over()
            if not self.runtime.is_gone:
                if self.runtime.sent_close:
                    self.runtime.transport.close()  # flushed first: the runtime must read why it is over
                else:
                    self.runtime.abort()
        if self.caller.is_gone and self.runtime.is_gone and not self.is_awaiting:
            self.owner.relay_ended(self)

    def _is_aside_of_the_call(self, leg: Leg) -> bool:
        """A runtime's connection that does not serve: its end is the succession's affair."""
        if leg is self.caller or leg is self.runtime:
            return False
        assert self.succession is not None
        self.succession.side_leg_ended(leg)
        return True

    # Ends

    def shut_down(self, code: int, text: str) -> None:
        """Closes both sides with a close frame; bounded by the close time-out."""
        self.note(RelayEnd.SHUT_DOWN)
        self.goodbye.say(self.caller, close_payload(code, text))
        self.goodbye.say(self.runtime, close_payload(code, text))
        self.goodbye.begin()

    def give_up(self, code: int, text: str) -> None:
        """No runtime is there and none will come: the caller is told."""
        self.note(RelayEnd.NO_CAPACITY)
        self.caller.is_sending = False
        self.goodbye.say(self.caller, close_payload(code, text))
        self.goodbye.begin()
        self.goodbye.finish_if_done()

    def runtime_lost(self, leg: Leg, end: RelayEnd, code: int, text: str) -> None:
        """The serving runtime `leg` goes without the session's end. The call goes on elsewhere, or `end`s."""
        if self._is_outlived(leg):
            return
        self.note(end)
        self.runtime.is_sending = False
        self.caller.is_sending = False
        self.runtime.abort()
        # A caller that had said goodbye gets its answer from us.
        said = self.caller.close_payload
        self.goodbye.say(self.caller, close_payload(code, text) if said is None else said)
        self.goodbye.begin()
        self.goodbye.finish_if_done()

    def _is_outlived(self, leg: Leg, close_code: int | None = None) -> bool:
        """Whether the call goes on without the runtime `leg`, which did not say that the session is over."""
        return self.succession is not None and not self.is_closing and self.succession.outlives(leg, close_code)

    def abort(self) -> None:
        self.call_is_over()
        self.runtime.abort()
        self.caller.abort()

    def note(self, end: RelayEnd) -> None:
        """Why the call ends; the first reason stays. Nobody is waited for any more."""
        self.end = self.end or end
        if self.coming_back is not None and self.coming_back.stops() and self.runtime.is_gone:
            self.gone(self.caller)  # no connection is left that would say so

    def write_control(self, leg: Leg, opcode: int, payload: bytes) -> None:
        leg.write(build_frame(opcode, payload, b"" if leg is self.caller else self.owner.mask_key()))

    def _close_came(self, leg: Leg, frame: ControlFrame) -> None:
        leg.close_payload = frame.payload
        if leg is not self.caller and leg is not self.runtime:
            return
        if not leg.is_sending:
            self.goodbye.finish_if_done()
            return
        leg.is_sending = False
        code = parse_close(frame.payload)
        if code is None:
            self._broke_protocol(leg, BorderFailure(1002, "a close payload that may not be sent"))
            return
        if leg is self.runtime and self._is_outlived(leg, code):
            return
        self.note(RelayEnd.CALLER_CLOSED if leg is self.caller else RelayEnd.RUNTIME_CLOSED)
        if leg is self.caller and self.runtime.transport.is_closing():  # nobody is there to answer: we do
            self.goodbye.say(self.caller, frame.payload)
        self.goodbye.say(self.caller if leg is self.runtime else self.runtime, frame.payload)
        self.goodbye.begin()
        self.goodbye.finish_if_done()

    def _broke_protocol(self, leg: Leg, failure: BorderFailure) -> None:
        leg.is_sending = False
        leg.is_mute = True
        if leg is self.caller:
            self.note(RelayEnd.CALLER_BROKE_PROTOCOL)
            payload = close_payload(failure.close_code, failure.text)
            self.goodbye.say(self.caller, payload)
            self.goodbye.say(self.runtime, payload)
            self.goodbye.begin()
        elif leg is self.runtime:
            code = failure.close_code if failure.close_code == 1009 else 1011
            self.runtime_lost(leg, RelayEnd.RUNTIME_BROKE_PROTOCOL, code, "the runtime broke the protocol")
        elif self.succession is not None:
            self.succession.side_leg_ended(leg)

    def _may_come_back(self) -> bool:
        return self.coming_back is not None and self.coming_back.leaves()

    def _dead(self, leg: Leg, end: RelayEnd) -> None:
        if leg is self.caller:
            if self._may_come_back():
                return
            self.note(end)
            if end is RelayEnd.CALLER_STALLED:
                self.goodbye.say(self.runtime, close_payload(*SLOW_CALLER_CLOSE))
                self.goodbye.begin()
                self.caller.abort()
            else:
                self.abort()
        else:
            self.runtime_lost(leg, RelayEnd.RUNTIME_LOST, 1012, "runtime lost")

    def call_is_over(self) -> None:
        if self.succession is not None:
            self.succession.call_is_over()

    # Time

    def tend(self, now_ns: int, awake_ns: int, pulses: Pulses) -> None:
        """Time passed: probes, deadlines. Call a few times a second. `awake_ns`: time as far as we were awake for it."""
        if self.goodbye.by_ns is not None:
            if now_ns >= self.goodbye.by_ns:
                self.abort()
            return
        if self.succession is not None:
            self.succession.tend(now_ns, awake_ns, self.runtime.heard or self.caller.paused_ns is not None, pulses)
        if self.coming_back is not None and not self.coming_back.tend(now_ns):
            self.note(RelayEnd.CALLER_LOST)
            self.abort()
            return
        for leg, other in ((self.caller, self.runtime), (self.runtime, self.caller)):
            if leg.transport.is_closing():  # a runtime that is lost, while another is looked for
                continue
            match look_at(leg, other, self.rule, now_ns):
                case LegState.PROBE:
                    self.write_control(leg, PING, b"")
                case LegState.STALLED | LegState.DEAD as state:
                    self._dead(leg, RelayEnd.CALLER_STALLED if state is LegState.STALLED else RelayEnd.CALLER_LOST)
                    return
