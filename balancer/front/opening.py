"""A caller who is upgraded before there is a place for it, since only what it says then tells which place it needs.

All that it sends is kept and given to the runtime that is found, from the first byte; what is more than may be kept waits in its
socket. Whoever cannot be served is told by a close frame, and has the time of an answer to close its side.
"""

from __future__ import annotations

import asyncio
from typing import Final

import anyio

from balancer.front.http_caller import HttpCaller
from balancer.front.responses import HttpError
from balancer.front.telephone_start import TelephoneStart, start_among
from balancer.placement.errors import PlacementRefused
from runtime.wire.websocket_frames import CLOSE, FrameBorders, build_frame, close_payload
from runtime.wire.websocket_messages import read_messages

__all__ = ["CallerGone", "Opening"]

_LONGEST_MESSAGE_BYTES: Final = 65_536
"""Before a stream is placed: a `start` has at most 32 parameters of 1 KiB."""
_MOST_BEFORE_START_BYTES: Final = 2 * _LONGEST_MESSAGE_BYTES
_MOST_KEPT_BYTES: Final = 256 * 1024
"""A telephone's audio of a quarter of a minute: longer than anybody waits for a place."""
_CLOSE_BY_STATUS: Final = {500: 1011, 503: 1013, 504: 1013}
"""Close codes where it is not the caller's own doing; else 1008."""


class CallerGone(Exception):
    """It closed, or broke the protocol: it was answered, and nothing is left to do."""


class Opening(asyncio.Protocol):
    """The transport's protocol from the upgrade's answer until a relay takes the connection over."""

    def __init__(self, caller: HttpCaller) -> None:
        self.transport = caller.transport
        self._caller = caller
        self._borders = FrameBorders(is_masked=True, max_frame_bytes=_LONGEST_MESSAGE_BYTES)
        self._frames = bytearray()
        self._seen = 0
        """Messages that were read; the frames of an unfinished one wait, lest each fragment is read anew with every other."""
        self._messages: list[bytes] = []
        self._received = bytearray()
        self._news = asyncio.Event()
        self._is_read = False
        """What it needs is known; the rest is the relay's to read."""

    def begin(self, answer: bytes) -> None:
        """`answer`: to the upgrade."""
        self._caller.opening = self
        self.transport.write(answer)
        self.transport.set_protocol(self)
        early = self._caller.take_over()
        if early:
            self.data_received(early)

    async def start(self, within_s: float) -> TelephoneStart:
        """Raises CallerGone where nothing more will come, HttpError for a need that there is not."""
        with anyio.move_on_after(within_s):
            while True:
                start = start_among(self._messages)
                if start is not None:
                    self._is_read = True
                    self._messages.clear()
                    self._frames.clear()
                    self.transport.resume_reading()
                    return start
                if self._borders.failure is not None:
                    self._hang_up(self._borders.failure.close_code, self._borders.failure.text)
                    raise CallerGone
                if self._borders.is_closed:
                    self._hang_up(1000, "")
                    raise CallerGone
                self._news.clear()
                await self._news.wait()
        self._hang_up(1008, "no start came")
        raise CallerGone

    # What it is told

    def refuse(self, error: HttpError) -> None:
        self._caller.note_refusal()
        self._hang_up(_CLOSE_BY_STATUS.get(error.status, 1008), f"{error.code}: {error}")

    def turn_away(self, refused: PlacementRefused) -> None:
        self._hang_up(_CLOSE_BY_STATUS.get(refused.http_status, 1008), f"{refused.code}: {refused}")

    def take_over(self) -> bytes:
        """All that it has sent. Its connection is the relay's from here on."""
        received, self._received = bytes(self._received), bytearray()
        self.transport.resume_reading()
        return received

    def _hang_up(self, code: int, text: str) -> None:
        if not self._caller.is_answered:
            self._caller.hang_up(build_frame(CLOSE, close_payload(code, text)))
            self._received.clear()
            self.transport.resume_reading()
            self._finish_if_closed()

    # From the transport

    def data_received(self, data: bytes) -> None:
        frames = self._borders.feed(data)
        self._borders.controls.clear()  # the relay finds and answers them in what was kept
        if self._caller.is_answered:
            self._finish_if_closed()
            return
        self._received += data
        if len(self._received) > (_MOST_KEPT_BYTES if self._is_read else _MOST_BEFORE_START_BYTES):
            self.transport.pause_reading()
        if self._is_read:
            return
        self._frames += frames
        if self._borders.messages > self._seen:
            self._seen = self._borders.messages
            messages, rest = read_messages(bytes(self._frames))
            self._messages += messages
            self._frames = bytearray(rest)
        self._news.set()

    def eof_received(self) -> None:
        self._caller.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._caller.connection_lost(error)

    def _finish_if_closed(self) -> None:
        if (self._borders.is_closed or self._borders.failure is not None) and not self.transport.is_closing():
            self.transport.close()
