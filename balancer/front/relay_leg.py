"""One side of a relayed call as its transport's protocol: bytes in, whole data frames out to the other side."""

from __future__ import annotations

import asyncio
from typing import Protocol

from runtime.wire.websocket_frames import FrameBorders

__all__ = ["Leg", "LegOwner"]


class LegOwner(Protocol):
    """The relay, as its legs see it."""

    def now_ns(self) -> int: ...

    def attend(self, leg: Leg) -> None:
        """Control frames or a failure were found in what `leg` sent."""
        ...

    def silent_end(self, leg: Leg) -> None:
        """`leg` sends nothing more."""
        ...

    def gone(self, leg: Leg) -> None:
        """The connection of `leg` is over."""
        ...


class Leg(asyncio.Protocol):
    """One side. Its transport's protocol from the upgrade on."""

    __slots__ = (
        "borders",
        "close_payload",
        "heard",
        "is_gone",
        "is_mute",
        "is_sending",
        "other",
        "paused_ns",
        "probed_ns",
        "relay",
        "sent_close",
        "silent_ns",
        "transport",
    )

    def __init__(self, relay: LegOwner, transport: asyncio.Transport, borders: FrameBorders, now_ns: int) -> None:
        self.relay = relay
        self.transport = transport
        self.borders = borders
        self.other: Leg
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

    def data_received(self, data: bytes) -> None:
        self.heard = True
        borders = self.borders
        forward = borders.feed(data)
        if forward and self.is_sending:
            self.other.transport.write(forward)
            if forward is data:  # nothing but data frames: spares the common case the look at what else there was
                return
        if borders.controls or borders.failure is not None:
            self.relay.attend(self)

    def pause_writing(self) -> None:
        self.paused_ns = self.relay.now_ns()
        if not self.other.transport.is_closing():  # uvloop raises on a closed one
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        self.paused_ns = None
        if not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    @property
    def is_done(self) -> bool:
        """Nobody owes anybody a close frame here."""
        return self.is_gone or (self.sent_close and (self.is_mute or self.close_payload is not None))

    def eof_received(self) -> bool:
        self.is_mute = True
        # Kept open for writing: a close frame may still have to go this way.
        self.relay.silent_end(self)
        return True

    def connection_lost(self, _error: Exception | None) -> None:
        self.is_gone = self.is_mute = True
        self.relay.silent_end(self)
        self.relay.gone(self)
