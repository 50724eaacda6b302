"""A spoken call for programs without an event loop: every method of `VoiceCall`, waiting where it has to.

The call lives in a thread of its own; methods may be called from several threads. docs/clients.md has an example.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from anyio.from_thread import BlockingPortal, start_blocking_portal
from numpy.typing import NDArray

from clients.call_events import CallEvent
from clients.playback import Playback
from clients.voice_call import CallOptions, VoiceCall, Way, open_call

__all__ = ["BlockingCall", "open_blocking_call"]


class BlockingCall:
    """See `VoiceCall`; what raises there raises here."""

    def __init__(self, portal: BlockingPortal, call: VoiceCall) -> None:
        self._portal = portal
        self._call = call
        self.rate_hz = call.rate_hz
        self.session_id = call.session_id
        self.runtime_id = call.runtime_id

    @property
    def playback(self) -> Playback:
        return self._call.playback

    @property
    def resume_token(self) -> str:
        return self._call.resume_token

    def events(self) -> Iterator[CallEvent]:
        """What the call tells, until the server ends it."""
        events = self._call.events()

        async def following() -> CallEvent | None:
            return await anext(events, None)

        while (event := self._portal.call(following)) is not None:
            yield event

    def send_audio(self, samples: NDArray[np.int16]) -> None:
        self._portal.call(self._call.send_audio, samples)

    def say(self, samples: NDArray[np.int16], silence_s: float = 2.0) -> None:
        self._portal.call(self._call.say, samples, silence_s)

    def type(self, text: str) -> None:
        self._portal.call(self._call.type, text)

    def interrupt(self) -> None:
        self._portal.call(self._call.interrupt)

    def commit(self) -> None:
        self._portal.call(self._call.commit)

    def respond(self) -> None:
        self._portal.call(self._call.respond)

    def press(self, key: str) -> None:
        self._portal.call(self._call.press, key)

    def answer_tool(self, call_id: str, output: str, *, is_error: bool = False) -> None:
        async def answer() -> None:
            await self._call.answer_tool(call_id, output, is_error=is_error)

        self._portal.call(answer)

    def hang_up(self) -> None:
        self._portal.call(self._call.hang_up)


@contextmanager
def open_blocking_call(
    server: str, agent: str = "", session_id: str = "", options: CallOptions | None = None, way: Way = Way.ASSIGN
) -> Iterator[BlockingCall]:
    """As `open_call`."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(open_call(server, agent, session_id, options, way)) as call,
    ):
        yield BlockingCall(portal, call)
