"""One caller of this measurement: three turns, the second of them in the middle of the harm; and what it had of the call.

    turn 1   undisturbed: the same words, to compare with
    turn 2   the harm comes in the middle of the caller's sentence, or of the agent's, as told
    turn 3   whether the call still works

Around the harm it puts numbered items into the conversation: each must be acknowledged once, in order.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final

import anyio
import numpy as np
from numpy.typing import NDArray

from clients.realtime import RATE_HZ, CallFailed, CallRefused
from perf.continuity.lines import Heard, Kind, Line
from perf.continuity.play_out import PlayOut
from perf.voice.microphone import Microphone, voiced_span

__all__ = ["Caller", "Harm"]

_ANSWER_WITHIN_S: Final = 20.0
_REPLY_WITHIN_S: Final = 60.0
_ITEM_EVERY_S: Final = 0.1
_ITEMS_BEFORE_S: Final = 1.5
_ITEMS_AFTER_S: Final = 4.0
_SPOKEN_BEFORE_S: Final = 3.0
"""How long the agent has been speaking when the harm comes, about."""
_THINKING_S: Final = 1.5
"""From the last word to the agent's first, about."""


@dataclass(slots=True)
class Harm:
    """When it comes; `at_s` is set once all callers are ready for it."""

    is_set: anyio.Event = field(default_factory=anyio.Event)
    at_s: float = 0.0


@dataclass(slots=True)
class Caller:
    """`interrupts_caller`: the harm comes while the caller speaks, else while the agent does.

    Attributes:
        session_id: as the server named it.
        failure: why the call ended before its time; empty: it did not.
        turns: what was understood of each turn that was answered.
        said: the agent's words, as its replies end.
        items: numbers of the items, sent and acknowledged, in order.
        event_ids: how often each message came, by its name or number; once, if all is well.
    """

    samples: NDArray[np.int16]
    interrupts_caller: bool
    harm: Harm
    session_id: str = ""
    failure: str = ""
    turns: list[str] = field(default_factory=list)
    sent_items: list[int] = field(default_factory=list)
    acknowledged_items: list[int] = field(default_factory=list)
    event_ids: Counter[str] = field(default_factory=Counter)
    replies: dict[str, PlayOut] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    is_ready: anyio.Event = field(default_factory=anyio.Event)
    _texts: list[str] = field(default_factory=list)
    _done: list[str] = field(default_factory=list)
    _news: anyio.Event = field(default_factory=anyio.Event)

    async def run(self, opened: Callable[[], AbstractAsyncContextManager[Line]]) -> None:
        """Never raises for the call's sake."""
        try:
            async with opened() as call:
                self.session_id = call.session_id
                microphone = Microphone(call)
                async with anyio.create_task_group() as group:
                    group.start_soon(microphone.run)
                    group.start_soon(self._listen, call)
                    await self._turn(microphone, "first")
                    self.is_ready.set()
                    await self.harm.is_set.wait()
                    group.start_soon(self._number, call)
                    await anyio.sleep_until(self._second_turn_s())
                    await self._turn(microphone, "second")
                    await self._turn(microphone, "third")
                    group.cancel_scope.cancel()
        except* (CallFailed, CallRefused, _Unanswered) as failures:
            self.failure = self.failure or "; ".join(str(failure) for failure in failures.exceptions)
        finally:
            self.is_ready.set()

    def reply_at(self, at_s: float) -> PlayOut | None:
        """The reply that played then."""
        return next((reply for reply in self.replies.values() if reply.was_playing(at_s)), None)

    def _second_turn_s(self) -> float:
        length_s = len(self.samples) / RATE_HZ
        if self.interrupts_caller:
            return self.harm.at_s - length_s / 2
        return self.harm.at_s - length_s - _THINKING_S - _SPOKEN_BEFORE_S

    async def _turn(self, microphone: Microphone, name: str) -> None:
        before = len(self._done)
        first, last = voiced_span(self.samples)
        starts_s = microphone.say(self.samples[max(0, first - RATE_HZ // 10) : last])
        try:
            with anyio.fail_after(_ANSWER_WITHIN_S + _REPLY_WITHIN_S):
                await anyio.sleep_until(starts_s + (last - first) / RATE_HZ)
                while len(self._done) == before:
                    await self._news.wait()
        except TimeoutError:
            raise _Unanswered(f"the {name} turn was not answered") from None
        self.turns.append(" ".join(self._texts))
        self._texts.clear()
        playing = max((reply.ends_s or 0.0 for reply in self.replies.values()), default=0.0)
        await anyio.sleep_until(playing + 0.5)

    async def _listen(self, call: Line) -> None:
        async for heard in call.heard():
            self._hear(heard, anyio.current_time())
            self._news.set()
            self._news = anyio.Event()
        self.failure = "the server closed the call"
        raise CallFailed(self.failure)

    def _hear(self, heard: Heard, now_s: float) -> None:
        self.event_ids[heard.name] += 1
        match heard.kind:
            case Kind.AUDIO:
                self.replies.setdefault(heard.reply, PlayOut()).take(now_s, heard.audio_s)
            case Kind.TRANSCRIPT:
                self._texts.append(heard.text)
            case Kind.ITEM:
                self.acknowledged_items.append(heard.number)
            case Kind.DONE:
                self._done.append(heard.reply)
            case Kind.SAID:
                self.said.append(heard.text)
            case Kind.ERROR:
                self.errors.append(heard.text)

    async def _number(self, call: Line) -> None:
        with contextlib.suppress(CallFailed):  # the listener says so
            await anyio.sleep_until(self.harm.at_s - _ITEMS_BEFORE_S)
            for number in range(int((_ITEMS_BEFORE_S + _ITEMS_AFTER_S) / _ITEM_EVERY_S)):
                await call.send_item(number)
                self.sent_items.append(number)
                await anyio.sleep_until(self.harm.at_s - _ITEMS_BEFORE_S + (number + 1) * _ITEM_EVERY_S)


class _Unanswered(Exception):
    """A turn got no answer in time."""
