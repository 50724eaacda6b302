"""A session is kept before each word that is not audio, stands still while it is handed over, and says nothing twice."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import anyio
import pytest
from trio.testing import MockClock

from runtime.conversation.intent_memory import IntentMemory
from runtime.conversation.outbox import Outbox
from runtime.conversation.ports import CallLink, Message
from runtime.conversation.writer import Writer
from runtime.dialogue import agent_events as ev
from runtime.dialogue.caller_events import CallerEvent, CommitAudio, SayText
from runtime.dialogue.checkpoint import Checkpoint
from runtime.primitives.reasons import EndReason
from tests.runtime.conversation.test_resumption import _ANSWER, _audio, _Process, _shape
from tests.support.call_parts import ScriptedLink, noise, quiet
from tests.support.local_runtime import until

pytestmark = pytest.mark.anyio


@dataclass
class _Keeper:
    """Keeps the place of each checkpoint among what was told."""

    told: list[ev.AgentEvent]
    link: ScriptedLink
    applied: list[int] = field(default_factory=list)
    """Where the wire stood at each checkpoint."""
    kept: list[tuple[int, Checkpoint, list[ev.AgentEvent], bool, int]] = field(default_factory=list)
    ended: list[EndReason] = field(default_factory=list)

    def keep(self, checkpoint: Checkpoint, following: Sequence[Message], *, is_quiet: bool, answers: int) -> None:
        self.applied.append(self.link.applied)
        events = list(cast(Sequence[ev.AgentEvent], following))
        self.kept.append((len(self.told), checkpoint, events, is_quiet, answers))

    def over(self, reason: EndReason) -> None:
        self.ended.append(reason)


class _Eager(ScriptedLink):
    """All of it has come already: to receive it, nobody has to wait."""

    def __init__(self, ready: Sequence[CallerEvent]) -> None:
        super().__init__()
        self.ready = deque(ready)

    async def receive(self) -> CallerEvent:
        if not self.ready:
            return await super().receive()
        self.applied += 1
        return self.ready.popleft()


@asynccontextmanager
async def _kept(lead_ms: int = 60_000) -> AsyncIterator[tuple[_Process, _Keeper]]:
    process = _Process(_ANSWER, lead_ms, IntentMemory())
    keeper = _Keeper(process.link.told, process.link)
    process.link.keeper = keeper

    async def run() -> None:
        await process.conversation.run(process.link, None)
        process.has_ended.set()

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        yield process, keeper
        group.cancel_scope.cancel()
    process.link.close()


async def test_each_event_but_audio_is_kept_just_before_it_is_told() -> None:  # requirement C3
    async with _kept() as (process, keeper):
        await process.heard([*noise(0.6), *quiet(0.6)])
        await process.link.until(ev.ReplyDone)
        before = {place: following for place, _, following, _, _ in keeper.kept if following}
        for place, event in enumerate(process.link.told):
            if isinstance(event, ev.ReplyAudio):
                assert place not in before
            else:
                assert before[place] == [event]


async def test_who_sends_without_a_pause_is_answered_all_the_same() -> None:  # requirement C3, bug R56
    """A session is kept between two messages even where the next one is always there already."""
    process = _Process(_ANSWER, 60_000, IntentMemory())
    process.link.close()
    link = process.link = _Eager([SayText("hello", "mine"), *quiet(150.0)])
    link.keeper = keeper = _Keeper(link.told, link)
    async with anyio.create_task_group() as group:
        group.start_soon(process.conversation.run, link, None)
        await link.until(ev.TextAdded)
        assert len(link.ready) > 1_000
        assert keeper.kept[-1][1].applied < 1_000
        assert keeper.applied == [checkpoint.applied for _, checkpoint, *_ in keeper.kept]  # one instant
        group.cancel_scope.cancel()
    link.close()


async def test_a_quiet_session_is_said_to_be_quiet() -> None:
    async with _kept() as (process, keeper):
        await process.heard([SayText("hello", "mine")])
        await until(lambda: any(is_quiet for *_, is_quiet, _ in keeper.kept))
        await process.heard([*quiet(0.3), *noise(0.6)])
        await process.link.until(ev.SpeechStarted)
        assert keeper.kept[-1][3] is False


async def test_a_session_that_is_handed_over_says_what_it_has_decided_and_no_more() -> None:  # requirement C2
    async with _kept(lead_ms=40) as (process, keeper):
        await process.heard([*noise(0.6), *quiet(0.6)])
        await process.link.until(ev.ReplyAudio, 10)
        await process.conversation.hand_over(7)
        await until(lambda: keeper.kept[-1][4] == 7)
        place = keeper.kept[-1][0]
        frames = len(process.link.of(ev.ReplyAudio))
        await process.link.until(ev.ReplyAudio, frames + 5)
        await process.heard([CommitAudio("late")])
        assert {type(event) for event in process.link.told[place:]} == {ev.ReplyAudio}
        process.conversation.stay()
        error = await process.link.until(ev.SoftError)
        assert error.event_id == "late"


async def test_a_session_that_went_elsewhere_ends_without_a_word() -> None:  # requirement C1
    process = _Process(_ANSWER, 40, IntentMemory())
    keeper = _Keeper(process.link.told, process.link)
    process.link.keeper = keeper
    reasons: list[EndReason | None] = []

    async def run() -> None:
        reasons.append(await process.conversation.run(process.link, None))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await process.heard([*noise(0.6), *quiet(0.6)])
        await process.link.until(ev.ReplyAudio, 10)
        await process.conversation.hand_over(1)
        process.conversation.move_out()
    assert reasons == [None]
    assert not process.link.of(ev.SessionClosed)
    assert not keeper.ended
    process.link.close()


async def test_an_end_is_told_to_the_keeper_and_a_lost_connection_is_not() -> None:  # requirement C3
    for reason, told in ((EndReason.IDLE_TIMEOUT, [EndReason.IDLE_TIMEOUT]), (EndReason.CONNECTION_LOST, [])):
        async with _kept() as (process, keeper):
            await process.heard([SayText("hello")])
            process.conversation.stop(reason)
            with anyio.fail_after(20):
                await process.has_ended.wait()
            assert keeper.ended == told


async def test_no_number_is_used_twice_where_the_reply_is_stopped_at_once() -> None:  # requirement C3
    process = _Process(_ANSWER, 60_000, IntentMemory())
    writer = process.conversation._writer
    writer.stand_by()
    async with anyio.create_task_group() as group:
        group.start_soon(process.conversation.run, process.link, None)
        await anyio.wait_all_tasks_blocked()
        writer.go_on((), 25)
        process.conversation.fence(1)
        process.conversation.emit(ev.Flush(1))
        await process.conversation.emit_audio(ev.ReplyAudio(2, b""))  # of the next reply: it has not been told
        await process.link.until(ev.ReplyAudio)
        group.cancel_scope.cancel()
    assert process.link.numbers == [(ev.Flush(1), 26), (ev.ReplyAudio(2, b""), 27)]
    process.link.close()


@pytest.mark.parametrize("told", [0, 1, 3, 40])
async def test_what_the_caller_has_had_since_is_not_said_again(told: int) -> None:  # requirement C2, C3
    """`told` messages were forwarded since the checkpoint: the one that it holds, and then audio."""
    first = _Process(_ANSWER, 60_000, IntentMemory())
    keeper = _Keeper(first.link.told, first.link)
    first.link.keeper = keeper
    second = _Process(_ANSWER, 60_000, IntentMemory())
    events = [*noise(0.6), *quiet(0.6)]
    async with anyio.create_task_group() as group:
        group.start_soon(first.conversation.run, first.link, None)
        await first.heard(events)
        await first.link.until(ev.ReplyDone)
        place, checkpoint, following = next(
            (place, checkpoint, following)
            for place, checkpoint, following, _, _ in reversed(keeper.kept)
            if following and isinstance(following[0], ev.ReplyText)
        )
        kept = [(ordinal, getattr(event, "pcm", b"")) for ordinal, event in enumerate(events, 1)]
        second.link.applied = checkpoint.applied
        await second.conversation.restore(checkpoint, kept[checkpoint.audio_from - 1 : checkpoint.applied])
        group.start_soon(second.conversation.run, second.link, None)
        second.conversation.go_on(following, told, 0)
        second.conversation.emit(ev.InputCleared())  # before any audio is there again
        await second.link.until(ev.ReplyDone)
        group.cancel_scope.cancel()
    rest = first.link.told[place + told :]
    numbers = [number for event, number in second.link.numbers if any(event is each for each in second.link.told)]
    assert numbers == list(range(max(0, told - 1) + 1, max(0, told - 1) + 1 + len(numbers)))  # none of those that are told
    second.link.told.remove(ev.InputCleared())
    assert _shape(second.link.told) == _shape(rest)
    assert _audio(second.link.told) == _audio(rest)
    for process in (first, second):
        process.link.close()


class _Telling:
    """A link that says all, and its keeper, which notes when a session was kept."""

    def __init__(self) -> None:
        self.keeper = self
        self.numbered = 0
        self.kept_s: list[float] = []
        self.began_s = 0.0

    def encode(self, event: ev.AgentEvent) -> Sequence[Message]:
        return ["x"]

    async def send(self, messages: Sequence[Message]) -> None:
        pass

    def keep(self, checkpoint: Checkpoint, following: Sequence[Message], *, is_quiet: bool, answers: int) -> None:
        self.kept_s.append(round(anyio.current_time() - self.began_s, 1))


async def _pass(seconds: float) -> None:
    """On a clock that jumps to whatever is waited for."""
    with anyio.move_on_after(seconds):
        await anyio.sleep_forever()


def test_a_session_in_which_nothing_happens_is_seldom_kept() -> None:  # five thousand silent callers cost next to nothing
    state: dict[str, int | None] = {"standing": 7}
    telling = _Telling()

    async def settled(take: Callable[[Checkpoint, bool], None]) -> None:
        standing = state["standing"]
        take(cast(Checkpoint, SimpleNamespace(applied=standing)), standing is not None)

    async def run() -> None:
        writer = Writer(Outbox(8, 8), 10.0, settled, lambda: state["standing"], lambda _reason: None, lambda: None)
        async with anyio.create_task_group() as group:
            telling.began_s = anyio.current_time()
            group.start_soon(writer.run, cast(CallLink, telling))
            await _pass(51)
            assert telling.kept_s == [2.0, 22.0, 42.0]
            state["standing"] = 8  # it heard something
            await _pass(10)
            assert telling.kept_s[3:] == [52.0]
            state["standing"] = None  # it does something
            await _pass(6)
            assert telling.kept_s[4:] == [62.0, 64.0, 66.0]
            group.cancel_scope.cancel()

    clock = MockClock(autojump_threshold=0)
    anyio.run(run, backend="trio", backend_options={"clock": clock})
