"""The way out of a session: sends what waits, and first has kept what must not be forgotten.

Where a keeper is there, the session is kept before each event that is not a frame of a reply, with the messages that say it. So
between two checkpoints only frames of one reply leave, and their number alone says how far a caller is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio

from runtime.conversation.outbox import Outbox
from runtime.conversation.ports import CallLink, LinkClosed, Message
from runtime.dialogue.agent_events import AgentEvent, ReplyAudio
from runtime.dialogue.checkpoint import Checkpoint
from runtime.primitives.reasons import EndReason

__all__ = ["Writer"]

_GOODBYE_S: Final = 2.0
_KEEP_EVERY_S: Final = 2.0
"""At least so often, however little is said: what came since has to be gone through again."""
_KEEP_IDLE_EVERY_S: Final = 20.0
"""Where nothing has come and nobody speaks: only the session's age and the caller's silence grow old by so much."""


class Writer:
    """Sends one session's events, in order.

    Args:
        settled: waits until the session stands between two messages of its caller, and there calls what it is given with its
            checkpoint and whether it is quiet: what is kept beside them must be of the same instant.
        standing: how far the session has come, where nothing goes on in it: as long as that is the same, so is the session.
        stop: ends the session.
        stale_sent: counts a frame that left after its fence; apart from the outbox, which is to prevent it.
    """

    def __init__(
        self,
        outbox: Outbox,
        slow_caller_s: float,
        settled: Callable[[Callable[[Checkpoint, bool], None]], Awaitable[None]],
        standing: Callable[[], int | None],
        stop: Callable[[EndReason], None],
        stale_sent: Callable[[], None],
    ) -> None:
        self.is_usable = True
        """Nothing was cut off on its way: a goodbye can be said."""
        self._outbox = outbox
        self._slow_caller_s = slow_caller_s
        self._settled = settled
        self._standing = standing
        self._stop = stop
        self._stale_sent = stale_sent
        self._has_ended = False
        self._fenced_upto = 0
        self._sending = anyio.CancelScope(shield=True)
        self._keep_at = self._kept_s = 0.0
        self._kept_standing: int | None = None
        self._is_due = False
        self._may_speak = anyio.Event()
        self._may_speak.set()
        self._may_decide = anyio.Event()
        self._may_decide.set()
        self._asked = 0
        self._following: Sequence[Message] = ()
        self._told_frames = self._told_elsewhere = 0

    def fence(self, generation: int) -> None:
        self._fenced_upto = max(self._fenced_upto, generation)
        self._told_frames = 0

    def end(self, *, at_once: bool) -> None:
        """Nothing more is sent. A link that was cancelled while it sent can send no goodbye, so unless all is to end at once
        what is on its way gets a moment."""
        self._has_ended = True
        if at_once:
            self._sending.cancel()
        else:
            self._sending.deadline = min(self._sending.deadline, anyio.current_time() + _GOODBYE_S)

    def stand_by(self) -> None:
        """Nothing is sent until `go_on`."""
        self._may_speak = anyio.Event()

    def go_on(self, following: Sequence[Message], told_audio_messages: int) -> None:
        """Another process has kept the session: `following` is sent first, and so many messages of the reply's frames, which the
        caller has had, are made again and not sent again."""
        self._following = following
        self._told_frames = self._told_elsewhere = told_audio_messages
        self._may_speak.set()

    def hand_over(self, number: int) -> None:
        """Keeps the session now, in answer to `number`; from then on only frames of a reply leave, until `stay`."""
        self._asked = number
        self._outbox.nudge()

    def stay(self) -> None:
        self._asked = 0
        self._may_decide.set()

    async def run(self, link: CallLink) -> None:
        await self._may_speak.wait()
        link.numbered += self._told_elsewhere  # whatever has been fenced since: the caller has them
        if self._following:
            await self._send(link, self._following)
        async with anyio.create_task_group() as group:
            if link.keeper is not None:
                group.start_soon(self._remind)
            while not (self._has_ended or self._outbox.is_over):
                if link.keeper is not None and (self._asked or self._is_due) and self._may_decide.is_set():
                    await self._keep(link, ())
                elif (event := await self._outbox.get()) is not None:
                    await self._tell(link, event)
            group.cancel_scope.cancel()

    async def _remind(self) -> None:
        """Has the session kept `_KEEP_EVERY_S` after the last time; a task of its own, since a deadline around each wait for an
        event costs as much as the event."""
        self._keep_at = anyio.current_time() + _KEEP_EVERY_S
        while True:
            await anyio.sleep_until(self._keep_at)
            now_s = anyio.current_time()
            if now_s >= self._keep_at:
                self._keep_at = now_s + _KEEP_EVERY_S
                standing = self._standing()
                if standing is None or standing != self._kept_standing or now_s >= self._kept_s + _KEEP_IDLE_EVERY_S:
                    self._is_due = True
                    self._outbox.nudge()

    async def _tell(self, link: CallLink, event: AgentEvent) -> None:
        if isinstance(event, ReplyAudio):
            if event.generation <= self._fenced_upto:
                self._stale_sent()
            await self._send(link, self._untold(link, event) if self._told_frames else link.encode(event))
            return
        if not self._may_decide.is_set():
            await self._may_decide.wait()
        messages = link.encode(event)
        if link.keeper is not None and messages:
            await self._keep(link, messages)
        await self._send(link, messages)

    def _untold(self, link: CallLink, event: ReplyAudio) -> Sequence[Message]:
        """What of it the caller has not had. The rest is numbered as it was then, whatever was said since."""
        numbered = link.numbered
        link.numbered = numbered - self._told_frames
        messages = link.encode(event)
        link.numbered = max(numbered, link.numbered)
        told = min(self._told_frames, len(messages))
        self._told_frames -= told
        return messages[told:]

    async def _keep(self, link: CallLink, following: Sequence[Message]) -> None:
        keeper = link.keeper
        assert keeper is not None, "asked for only where one is"

        def keep(checkpoint: Checkpoint, is_quiet: bool) -> None:
            answers, self._asked = self._asked, 0
            if answers:
                self._may_decide = anyio.Event()
            keeper.keep(checkpoint, following, is_quiet=is_quiet, answers=answers)
            self._kept_standing = checkpoint.applied if is_quiet else None

        await self._settled(keep)
        self._is_due = False
        self._kept_s = anyio.current_time()
        self._keep_at = self._kept_s + _KEEP_EVERY_S

    async def _send(self, link: CallLink, messages: Sequence[Message]) -> None:
        if not messages:
            return
        self._sending = anyio.CancelScope(shield=True, deadline=anyio.current_time() + self._slow_caller_s)
        try:
            with self._sending:
                await link.send(messages)
        except LinkClosed as closed:
            # A goodbye may have come in and wait to be read: the reader knows better why the link is gone.
            with anyio.move_on_after(_GOODBYE_S):
                await anyio.sleep_forever()
            self._stop(closed.reason)
        if self._sending.cancelled_caught:
            self.is_usable = False
            self._stop(EndReason.SLOW_CALLER)
