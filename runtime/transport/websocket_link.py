"""A call's two directions over an accepted WebSocket; a wire says how messages are read and written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Final, TypeAlias, cast

import anyio
from starlette.types import Message as AsgiMessage
from starlette.websockets import WebSocket, WebSocketDisconnect

from runtime.conversation.ports import Keeper, LinkClosed, Message
from runtime.conversation.resumption import KeptMessage
from runtime.dialogue.agent_events import AgentEvent
from runtime.dialogue.caller_events import AppendAudio, CallerEvent
from runtime.primitives.reasons import EndReason
from runtime.wire.close_codes import SLOW_CALLER_CLOSE

__all__ = ["WebSocketLink", "WireMessage", "audio_among", "reason_of"]

WireMessage: TypeAlias = str | bytes
_GOODBYE_CODES: Final = frozenset({1000, 1001})
_MOST_HELD: Final = 4_096
"""Messages: well over the half minute of audio that a relay keeps."""


class WebSocketLink(ABC):
    """As the port.

    Args:
        applied: ordinal of the caller's last message that was read before.

    Attributes:
        close_reason: what the close frame says beside its code where the wire knows better than the end's name.
    """

    frames_per_message = 1.0

    def __init__(self, websocket: WebSocket, applied: int = 0) -> None:
        self.keeper: Keeper | None = None
        self.close_reason = ""
        self.applied = self.receiving = applied
        self._websocket = websocket
        self._waiting: deque[CallerEvent] = deque()
        self._numbered = 0
        self._is_holding = False
        self._held: deque[WireMessage] = deque()
        self._listening: anyio.CancelScope | None = None

    @property
    @abstractmethod
    def state(self) -> object:
        """What the wire remembers, as values: from it the wire is made again elsewhere."""

    @abstractmethod
    def read(self, message: WireMessage) -> Sequence[CallerEvent]:
        """One message of the caller. Raises LinkClosed."""

    @abstractmethod
    def audio_of(self, message: WireMessage) -> bytes | None:
        """A message that was read elsewhere: its audio, as `read` would give it, and nothing else of it."""

    @abstractmethod
    def encode(self, event: AgentEvent) -> Sequence[WireMessage]:
        """As the port."""

    @property
    def numbered(self) -> int:
        """As the port; of a wire without numbers nobody asks."""
        return self._numbered

    @numbered.setter
    def numbered(self, count: int) -> None:
        self._numbered = count

    def begin_with(self, event: CallerEvent) -> None:
        """What the messages that were read before mean is received first."""
        self._waiting.append(event)

    def hold(self) -> None:
        """What the caller says is kept, unread, until `release`."""
        self._is_holding = True

    def release(self) -> None:
        self._is_holding = False
        if self._listening is not None:
            self._listening.cancel()

    async def read_again(self, upto: int) -> list[KeptMessage]:
        """The audio of the caller's messages up to an ordinal, which were read elsewhere. Raises LinkClosed."""
        found: list[KeptMessage] = []
        while self.applied < upto:
            message = await self._message()
            self.applied = self.receiving = self.applied + 1
            audio = self.audio_of(message)
            if audio:
                found.append((self.applied, audio))
        return found

    async def receive(self) -> CallerEvent:
        while not self._waiting:
            self._waiting.extend(self.read(await self._next()))
            self.receiving += 1
            if not self._waiting:
                self.applied = self.receiving
        event = self._waiting.popleft()
        if not self._waiting:
            self.applied = self.receiving
        return event

    async def send(self, messages: Sequence[Message]) -> None:
        try:
            for message in cast(Sequence[WireMessage], messages):
                if isinstance(message, str):
                    await self._websocket.send_text(message)
                else:
                    await self._websocket.send_bytes(message)
        except (WebSocketDisconnect, RuntimeError) as error:
            # Starlette answers RuntimeError to a send after the close was seen by the receiving side.
            raise LinkClosed(EndReason.CONNECTION_LOST) from error

    async def _next(self) -> WireMessage:
        """The next message that is not held. What comes while all is held is taken off the connection all the same: behind it
        comes the word that ends the hold."""
        while self._is_holding or not self._held:
            # Only a hold can end while this waits for a message and there is something else to answer with.
            message = await (self._message_within_hold() if self._is_holding else self._message())
            if message is not None:
                if not self._is_holding and not self._held:
                    return message
                self._held.append(message)
        return self._held.popleft()

    async def _message_within_hold(self) -> WireMessage | None:
        """None where the hold ends first."""
        with anyio.CancelScope() as self._listening:
            return await (self._message() if len(self._held) < _MOST_HELD else anyio.sleep_forever())
        return None

    async def _message(self) -> WireMessage:
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise LinkClosed(reason_of(message))
        text = message.get("text")
        return cast(WireMessage, text if text is not None else message["bytes"])


def audio_among(events: Sequence[CallerEvent]) -> bytes | None:
    """What `WebSocketLink.audio_of` answers, from what a message means."""
    return next((event.pcm for event in events if isinstance(event, AppendAudio)), None)


def reason_of(disconnect: AsgiMessage) -> EndReason:
    """A close frame with a normal code or none is a goodbye; a broken protocol was closed by our side; a relay may have cut off a
    caller who did not read; else it is a loss.

    1005 (RFC 6455: no code) stands both for a close frame without a code, which is what a browser's `close()` sends, and for a
    socket that just ended: only the frame brings a `reason`.
    """
    code = disconnect.get("code")
    if code in _GOODBYE_CODES or (code == 1005 and "reason" in disconnect):
        return EndReason.CLOSED_BY_CALLER
    if (code, disconnect.get("reason")) == SLOW_CALLER_CLOSE:
        return EndReason.SLOW_CALLER
    if code in (1002, 1003, 1007, 1009):
        return EndReason.PROTOCOL_ERROR
    return EndReason.CONNECTION_LOST
