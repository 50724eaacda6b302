"""One connection of a relayed call as its transport's protocol: bytes in, whole data frames out to wherever they go now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from balancer.placement.placement import Placement
from runtime.wire.asides import ASIDE_FIRST_BYTE, LONGEST_ASIDE_BYTES
from runtime.wire.websocket_frames import FrameBorders

__all__ = ["HIGH_WATER_BYTES", "LOW_WATER_BYTES", "Leg", "LegOwner", "runtime_leg"]

HIGH_WATER_BYTES: Final = 65_536
"""Above this a transport's write buffer pauses the other side's reading. One second of 24 kHz PCM in base64 is 64 KiB."""
LOW_WATER_BYTES: Final = 16_384


class LegOwner(Protocol):
    """The relay, as its legs see it."""

    def now_ns(self) -> int: ...

    def attend(self, leg: Leg) -> None:
        """Control frames, asides or a failure were found in what `leg` sent."""
        ...

    def paused(self, leg: Leg) -> None:
        """The write buffer of `leg` is above the mark."""
        ...

    def resumed(self, leg: Leg) -> None: ...

    def silent_end(self, leg: Leg) -> None:
        """`leg` sends nothing more."""
        ...

    def gone(self, leg: Leg) -> None:
        """The connection of `leg` is over."""
        ...


def _nowhere(_frames: bytes) -> None:
    pass


class _Nobody(asyncio.Protocol):
    """Of a connection that was left."""


class Leg(asyncio.Protocol):
    """One side. Its transport's protocol from the upgrade on."""

    __slots__ = (
        "borders",
        "close_payload",
        "epoch",
        "forward",
        "heard",
        "incarnation",
        "is_gone",
        "is_mute",
        "is_sending",
        "paused_ns",
        "probed_ns",
        "relay",
        "runtime_id",
        "sent_close",
        "silent_ns",
        "transport",
    )

    def __init__(self, relay: LegOwner, transport: asyncio.Transport, borders: FrameBorders, now_ns: int) -> None:
        self.relay = relay
        self.transport = transport
        self.borders = borders
        self.forward: Callable[[bytes], None] = _nowhere
        """Takes the whole data frames that it sends."""
        self.runtime_id = ""
        self.incarnation = 0
        self.epoch = 0
        """Which leg of the session it is; of a runtime's connection."""
        self.is_sending = True
        """What it sends is forwarded."""
        self.is_gone = False
        self.is_mute = False
        """Its direction of the connection is over, or what it sends cannot be read any more."""
        self.close_payload: bytes | None = None
        """Of the close frame that it sent."""
        self.sent_close = False
        """We wrote a close frame to it: nothing more may be written."""
        self.heard = False
        self.silent_ns = now_ns
        self.probed_ns: int | None = None
        self.paused_ns: int | None = None
        """Since when its write buffer is above the mark."""

    def take_over(self) -> None:
        """Its connection's bytes come here from now on."""
        self.transport.set_write_buffer_limits(high=HIGH_WATER_BYTES, low=LOW_WATER_BYTES)
        self.transport.set_protocol(self)

    def data_received(self, data: bytes) -> None:
        self.heard = True
        borders = self.borders
        frames = borders.feed(data)
        if frames and self.is_sending:
            self.forward(frames)
            if frames is data:  # nothing but data frames: spares the common case the look at what else there was
                return
        if borders.controls or borders.asides or borders.failure is not None:
            self.relay.attend(self)

    def pause_writing(self) -> None:
        self.paused_ns = self.relay.now_ns()
        self.relay.paused(self)

    def resume_writing(self) -> None:
        self.paused_ns = None
        self.relay.resumed(self)

    def pause_reading(self) -> None:
        if not self.transport.is_closing():  # uvloop raises on a closed one
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def write(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(data)

    def abort(self) -> None:
        if not self.is_gone:  # also one that is closing and waits for its buffer to be read
            self.transport.abort()

    def stop(self) -> None:
        """Nothing that it sends goes anywhere any more."""
        self.is_sending = False
        self.forward = _nowhere

    # Of a caller that may come back

    def let_go(self) -> None:
        """This connection is left: what still comes of it is nobody's."""
        self.is_gone = self.is_mute = True
        self.is_sending = False
        self.transport.set_protocol(_Nobody())
        self.transport.abort()

    def take_up(self, transport: asyncio.Transport, borders: FrameBorders, now_ns: int) -> None:
        """Goes on over another connection, at the border of the last whole message."""
        self.transport = transport
        self.borders = borders
        self.is_gone = self.is_mute = self.sent_close = False
        self.is_sending = self.heard = True
        self.silent_ns, self.probed_ns, self.paused_ns = now_ns, None, None
        self.take_over()

    @property
    def life(self) -> tuple[str, int]:
        """Which life of which runtime it is: id and incarnation."""
        return self.runtime_id, self.incarnation

    @property
    def is_done(self) -> bool:
        """Nobody owes anybody a close frame here."""
        return self.is_gone or (self.sent_close and (self.is_mute or self.close_payload is not None))

    def eof_received(self) -> bool:
        self.is_mute = True
        # Kept open for writing: a close frame may still have to go this way.
        self.relay.silent_end(self)
        return self.transport.can_write_eof()  # TLS has no half-closed connections

    def connection_lost(self, _error: Exception | None) -> None:
        self.is_gone = self.is_mute = True
        self.relay.silent_end(self)
        self.relay.gone(self)


def runtime_leg(
    relay: LegOwner, transport: asyncio.Transport, placement: Placement, max_frame_bytes: int, *, has_asides: bool
) -> Leg:
    """A runtime's connection as a leg of the call; it serves, or is to serve."""
    borders = FrameBorders(
        is_masked=False,
        max_frame_bytes=max_frame_bytes,
        may_fragment=False,
        aside_first_byte=ASIDE_FIRST_BYTE if has_asides else 0,
        longest_aside_bytes=LONGEST_ASIDE_BYTES if has_asides else 0,
    )
    leg = Leg(relay, transport, borders, relay.now_ns())
    leg.runtime_id, leg.incarnation, leg.epoch = placement.runtime_id, placement.incarnation, placement.epoch
    return leg
