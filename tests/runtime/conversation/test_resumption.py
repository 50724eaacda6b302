"""A conversation goes on in another process as if nothing had happened, whatever it was doing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any

import anyio
import numpy as np
import pytest

from runtime.codec.checkpoint_message import BadCheckpoint, KeptSession, decode_session, encode_session
from runtime.conversation.conversation import Conversation, NotSettled
from runtime.conversation.intent_memory import IntentMemory
from runtime.conversation.kept_audio import MissingAudio
from runtime.conversation.ports import ConversationLimits
from runtime.dialogue import agent_events as ev
from runtime.dialogue.agent import Json, Turn
from runtime.dialogue.caller_events import AppendAudio, CallerEvent, CommitAudio, Configure, Dtmf, Goodbye, RequestReply, SayText
from runtime.dialogue.checkpoint import Checkpoint
from runtime.dialogue.session_settings import AudioEncoding, AudioFormat, ServerVad, SessionSettings
from runtime.dialogue.turn_table import Floor
from runtime.engines.ports import Samples
from runtime.engines.synthetic import SettableRecognizer, synthetic_engines
from runtime.primitives.clock import MonotonicClock
from runtime.primitives.reasons import EndReason
from tests.support.call_parts import Observer, ScriptedAgent, ScriptedLink, noise, quiet, tool
from tests.support.local_runtime import until

pytestmark = pytest.mark.anyio

_VAD = ServerVad(silence_duration_ms=400, is_adaptive=False)
_SETTINGS = SessionSettings("scripted", turn_detection=_VAD)
_ANSWER = "It is a long way. And the hill is high. Take some water with you, and a hat."


class _Recognizer(SettableRecognizer):
    """Says how long the utterance is, to the tenth of a second; waits where the test wants it to."""

    def __init__(self) -> None:
        super().__init__(lambda samples: f"{samples.size / 16_000:.1f} seconds")
        self.may_answer = anyio.Event()
        self.may_answer.set()
        self.heard: list[Samples] = []

    async def recognize(self, samples: Samples, urgency: Any = None) -> Any:
        self.heard.append(samples)
        await self.may_answer.wait()
        return await super().recognize(samples)


class _Process:
    """A conversation with all that belongs to it."""

    def __init__(
        self, answer: Callable[[Turn], AsyncIterator[str]] | str, lead_ms: int, intents: IntentMemory, **tools: Any
    ) -> None:
        self.link = ScriptedLink()
        self.has_ended = anyio.Event()
        self.recognizer = _Recognizer()
        self.agent = ScriptedAgent(answer, tools.get("tools", ()))
        engines = synthetic_engines(recognizer=self.recognizer)
        limits = ConversationLimits(lead_ms=lead_ms)
        self.observer = Observer()
        self.conversation = Conversation("s", _SETTINGS, self.agent, engines, limits, MonotonicClock(), self.observer, intents)

    async def heard(self, events: list[CallerEvent]) -> None:
        await self.link.do(*events)
        await until(lambda: not self.link.waiting)
        await anyio.wait_all_tasks_blocked()

    async def checkpoint(self) -> Checkpoint:
        taken: list[Checkpoint] = []

        def is_settled() -> bool:
            try:
                taken.append(self.conversation.checkpoint())
            except NotSettled:
                return False
            return True

        await until(is_settled)
        return decode_session(encode_session(KeptSession(taken[0]))).checkpoint


async def _resumed(checkpoint: Checkpoint, all_events: list[CallerEvent], process: _Process) -> None:
    """Hands over what a relay has kept."""
    kept = list(enumerate(all_events, 1))[checkpoint.audio_from - 1 : checkpoint.applied]
    process.link.applied = checkpoint.applied
    audio = [(ordinal, event.pcm) for ordinal, event in kept if isinstance(event, AppendAudio)]
    await process.conversation.restore(checkpoint, audio)
    process.conversation.go_on((), 0, 0)


def _shape(events: list[ev.AgentEvent]) -> list[object]:
    """What was told without times: audio is told apart, and what was held is held for as long as it takes."""
    kinds = (ev.ReplyAudio, ev.OutputHeld, ev.OutputResumed)
    texts: list[object] = []
    for event in events:
        if isinstance(event, ev.ReplyText) and texts and isinstance(texts[-1], ev.ReplyText):
            texts[-1] = ev.ReplyText(event.generation, texts[-1].delta + event.delta)
        elif not isinstance(event, kinds):
            texts.append(event)
    return texts


def _audio(*told: list[ev.AgentEvent]) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for event in [event for part in told for event in part]:
        if isinstance(event, ev.ReplyAudio):
            found[event.generation] = found.get(event.generation, b"") + event.pcm
    return found


_CASES: list[tuple[str, Floor, list[CallerEvent], list[CallerEvent], int]] = [
    ("before a word", Floor.LISTENING, quiet(0.5), [*noise(0.8), *quiet(0.7)], 1),
    ("in mid-sentence", Floor.HEARING, [*quiet(0.5), *noise(0.6)], [*noise(0.5), *quiet(0.7)], 1),
    ("in mid-pause", Floor.DECIDING, [*noise(0.6), *quiet(0.3)], [*noise(0.5), *quiet(0.7)], 1),
    ("at the end of a turn", Floor.DECIDING, [*noise(0.6), *quiet(0.3)], quiet(0.7), 1),
    ("between two turns", Floor.LISTENING, [*noise(0.6), *quiet(0.9)], [*noise(0.7), *quiet(0.7)], 2),
    ("after typed words", Floor.LISTENING, [SayText("hello", "mine")], [RequestReply()], 1),
    ("with keys pressed", Floor.LISTENING, [Dtmf("4"), Dtmf("2")], [Dtmf("#")], 1),
]


@pytest.mark.parametrize(("floor", "before", "after", "replies"), [case[1:] for case in _CASES], ids=[case[0] for case in _CASES])
async def test_the_rest_is_told_as_if_nothing_had_happened(
    floor: Floor, before: list[CallerEvent], after: list[CallerEvent], replies: int
) -> None:  # requirement V7
    undisturbed, first, second = (_Process(_ANSWER, 60_000, IntentMemory()) for _ in range(3))
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(undisturbed.conversation.run, undisturbed.link, None)
            group.start_soon(first.conversation.run, first.link, None)
            for process in (undisturbed, first):
                await process.heard(before)
                if replies == 2:
                    await process.link.until(ev.ReplyDone)
            checkpoint = await first.checkpoint()
            assert checkpoint.turns.floor is floor
            told_before = list(first.link.told)
            await _resumed(checkpoint, before, second)
            group.start_soon(second.conversation.run, second.link, None)
            for process in (undisturbed, second):
                await process.heard(after)
                await process.link.until(ev.ReplyDone, replies if process is undisturbed else 1)
            assert _shape([*told_before, *second.link.told]) == _shape(undisturbed.link.told)
            assert _audio(told_before, second.link.told) == _audio(undisturbed.link.told)
            assert [turn.history for turn in second.agent.turns] == [
                turn.history for turn in undisturbed.agent.turns[replies - 1 :]
            ]
            group.cancel_scope.cancel()
    finally:
        for process in (undisturbed, first, second):
            process.link.close()


async def test_who_has_said_goodbye_hangs_up_elsewhere() -> None:  # requirement C3
    async def answer(turn: Turn) -> AsyncIterator[str]:
        turn.end_call()
        yield "Goodbye, and thank you very much for calling us today."

    first, second = (_Process(answer, 60_000, IntentMemory()) for _ in range(2))
    events: list[CallerEvent] = [SayText("bye", "mine"), RequestReply()]
    reasons: list[EndReason | None] = []

    async def run() -> None:
        reasons.append(await second.conversation.run(second.link, None))

    async with anyio.create_task_group() as group:
        group.start_soon(first.conversation.run, first.link, None)
        await first.heard(events)
        await first.link.until(ev.ReplyDone)
        checkpoint = await first.checkpoint()
        await _resumed(checkpoint, events, second)
        group.start_soon(run)
        await until(lambda: bool(reasons), 20)
        group.cancel_scope.cancel()
    assert reasons == [EndReason.CLOSED_BY_AGENT]
    for process in (first, second):
        process.link.close()


async def test_words_that_were_on_their_way_come_elsewhere() -> None:
    first, second = (_Process(_ANSWER, 60_000, IntentMemory()) for _ in range(2))
    events = [*quiet(1.0), *noise(0.6), *quiet(0.6)]
    first.recognizer.may_answer = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(first.conversation.run, first.link, None)
        await first.heard(events)
        checkpoint = await first.checkpoint()
        assert checkpoint.turns.floor is Floor.TRANSCRIBING
        assert 1 < checkpoint.audio_from < checkpoint.applied == len(events)
        await _resumed(checkpoint, events, second)
        group.start_soon(second.conversation.run, second.link, None)
        await second.link.until(ev.ReplyDone)
        group.cancel_scope.cancel()
    (transcript,) = second.link.of(ev.TranscriptReady)
    assert transcript.item_id == first.link.of(ev.InputCommitted)[0].item_id
    again, before = (heard.astype(int) for heard in (second.recognizer.heard[0], first.recognizer.heard[-1]))
    assert np.abs(again - before).max() <= 4  # the resampler dithers
    for process in (first, second):
        process.link.close()


@pytest.mark.parametrize("is_held", [False, True])
async def test_a_reply_goes_on_from_the_very_frame(is_held: bool) -> None:  # requirement C2
    undisturbed = _Process(_ANSWER, 60_000, IntentMemory())
    first, second = _Process(_ANSWER, 40, IntentMemory()), _Process(_ANSWER, 60_000, IntentMemory())
    events = [*noise(0.6), *quiet(0.6)]
    async with anyio.create_task_group() as group:
        for process in (undisturbed, first):
            group.start_soon(process.conversation.run, process.link, None)
            await process.heard(events)
        await first.link.until(ev.ReplyAudio, 80)  # in the second sentence
        if is_held:
            events += noise(0.2)
            await first.heard(noise(0.2))
            await first.link.until(ev.OutputHeld)
        checkpoint = await first.checkpoint()
        told_before = list(first.link.told)
        assert checkpoint.turns.floor is (Floor.INTERRUPTED if is_held else Floor.SPEAKING)
        await _resumed(checkpoint, events, second)
        group.start_soon(second.conversation.run, second.link, None)
        if is_held:
            second.recognizer.answer = ""
            await anyio.wait_all_tasks_blocked()
            assert not second.link.of(ev.ReplyAudio)
            assert second.conversation.waiting_events == 0
            await second.heard(quiet(0.6))
        await second.link.until(ev.ReplyDone)
        await undisturbed.link.until(ev.ReplyDone)
        group.cancel_scope.cancel()
    assert _audio(told_before, second.link.told) == _audio(undisturbed.link.told)
    assert not second.link.of(ev.ReplyStarted)
    assert not second.agent.turns  # it had written all
    assert second.link.of(ev.ReplyDone) == undisturbed.link.of(ev.ReplyDone)
    for process in (undisturbed, first, second):
        process.link.close()


@pytest.mark.parametrize("says_the_same", [True, False])
async def test_an_agent_that_was_writing_goes_on_and_no_tool_runs_twice(says_the_same: bool) -> None:  # requirement C3
    runs, asked, intents = [], [], IntentMemory()

    async def book(_: Mapping[str, Json], key: str) -> Json:
        runs.append(key)
        return len(runs)

    async def answer(turn: Turn) -> AsyncIterator[str]:
        asked.append(1)
        turn.memory["asked"] = len(turn.memory) + 1
        number = await turn.call_tool("book", {})
        yield f"Table {number} is yours. " if says_the_same or len(asked) == 1 else "Something else. "
        if len(asked) == 1:
            await anyio.sleep_forever()
        yield "Come at eight."

    tools = [tool("book", book)]
    first, second = (_Process(answer, 60_000, intents, tools=tools) for _ in range(2))
    events = [*noise(0.6), *quiet(0.6)]
    async with anyio.create_task_group() as group:
        group.start_soon(first.conversation.run, first.link, None)
        await first.heard(events)
        await first.link.until(ev.ReplyAudio, 20)
        checkpoint = replace(await first.checkpoint(), epoch=2)
        await _resumed(checkpoint, events, second)
        group.start_soon(second.conversation.run, second.link, None)
        done = await second.link.until(ev.ReplyDone)
        group.cancel_scope.cancel()
    assert runs == [f"{checkpoint.turns.key_stem}:1:1"]  # in both processes
    assert done.text == ("Table 1 is yours. Come at eight." if says_the_same else "Table 1 is yours. ")
    assert "".join(text.delta for text in second.link.of(ev.ReplyText)) == ("Come at eight." if says_the_same else "")
    assert not second.link.of(ev.ToolStarted)
    assert not second.link.of(ev.ToolFinished)
    for process in (first, second):
        process.link.close()


async def test_what_was_decided_and_not_told_is_told_elsewhere() -> None:
    first, second = (_Process(_ANSWER, 60_000, IntentMemory()) for _ in range(2))
    async with anyio.create_task_group() as group:
        group.start_soon(first.conversation.run, first.link, None)
        first.link.is_stalled = True
        await first.heard([CommitAudio("1"), CommitAudio("2"), CommitAudio("3")])
        checkpoint = await first.checkpoint()
        assert (checkpoint.applied, len(checkpoint.waiting)) == (3, 2)  # the first is on its way
        await _resumed(checkpoint, [], second)
        group.start_soon(second.conversation.run, second.link, None)
        await second.link.until(ev.SoftError, 2)
        group.cancel_scope.cancel()
    assert [error.event_id for error in second.link.of(ev.SoftError)] == ["2", "3"]
    for process in (first, second):
        process.link.close()


async def test_audio_that_is_missing_is_said_so() -> None:
    first, second = (_Process(_ANSWER, 60_000, IntentMemory()) for _ in range(2))
    async with anyio.create_task_group() as group:
        group.start_soon(first.conversation.run, first.link, None)
        await first.heard([*quiet(0.5), *noise(0.6)])
        checkpoint = await first.checkpoint()
        with pytest.raises(MissingAudio, match="are needed"):
            await second.conversation.restore(checkpoint, [])
        await first.link.do(Goodbye())
    for process in (first, second):
        process.link.close()


@pytest.mark.parametrize("rate_hz", [8_000, 16_000])
async def test_the_same_words_are_heard_at_every_rate(rate_hz: int) -> None:
    settings = replace(_SETTINGS, input_format=AudioFormat(AudioEncoding.PCM16, rate_hz))
    step = 24_000 // rate_hz if rate_hz != 16_000 else 1
    speech, silence = noise(0.6), quiet(0.7)
    events: list[CallerEvent] = [AppendAudio(event.pcm[: 960 // 3 * (1 if step == 3 else 2)]) for event in (*speech, *silence)]  # type: ignore[union-attr]
    first, second = (_Process(_ANSWER, 60_000, IntentMemory()) for _ in range(2))
    async with anyio.create_task_group() as group:
        for process in (first, second):
            process.conversation._turns.configure(settings)
        group.start_soon(first.conversation.run, first.link, None)
        await first.heard(events[:20])
        checkpoint = await first.checkpoint()
        await _resumed(checkpoint, events[:20], second)
        group.start_soon(second.conversation.run, second.link, None)
        await second.heard(events[20:])
        await first.heard(events[20:])
        await second.link.until(ev.ReplyDone)
        await first.link.until(ev.ReplyDone)
        group.cancel_scope.cancel()
    assert second.link.of(ev.TranscriptReady)[0].text == first.link.of(ev.TranscriptReady)[0].text
    for process in (first, second):
        process.link.close()


async def test_what_was_told_of_an_open_turn_is_not_told_again() -> None:
    settings = replace(_SETTINGS, wants_partials=True)
    first, second = (_Process(_ANSWER, 60_000, IntentMemory()) for _ in range(2))
    events = [Configure(settings), *noise(0.6), *quiet(0.3)]
    async with anyio.create_task_group() as group:
        group.start_soon(first.conversation.run, first.link, None)
        await first.heard(events)
        await first.link.until(ev.TranscriptPartial)
        checkpoint = await first.checkpoint()
        await _resumed(checkpoint, events, second)
        group.start_soon(second.conversation.run, second.link, None)
        await second.heard(quiet(0.7))
        await second.link.until(ev.ReplyDone)
        group.cancel_scope.cancel()
    assert not second.link.of(ev.TranscriptPartial)
    for process in (first, second):
        process.link.close()


async def test_another_session_s_state_is_refused() -> None:
    first, second = (_Process(_ANSWER, 60_000, IntentMemory()) for _ in range(2))
    async with anyio.create_task_group() as group:
        group.start_soon(first.conversation.run, first.link, None)
        await first.heard(quiet(0.1))
        checkpoint = await first.checkpoint()
        group.cancel_scope.cancel()
    with pytest.raises(BadCheckpoint, match="another session"):
        await second.conversation.restore(replace(checkpoint, session_id="other"), [])
    with pytest.raises(BadCheckpoint, match=r"turns\.reply"):
        await second.conversation.restore(replace(checkpoint, turns=replace(checkpoint.turns, floor=Floor.SPEAKING)), [])
    for process in (first, second):
        process.link.close()


async def test_notes_that_no_checkpoint_could_hold_are_told_to_the_author_and_dropped() -> None:
    async def answer(turn: Turn) -> AsyncIterator[str]:
        found: list[Json] = [1]
        turn.memory["list"] = found
        found.append((1, 2))  # type: ignore[arg-type]  # an author's mistake
        turn.memory["sound"] = True
        yield _ANSWER

    first = _Process(answer, 60_000, IntentMemory())
    async with anyio.create_task_group() as group:
        group.start_soon(first.conversation.run, first.link, None)
        await first.link.do(RequestReply())
        await first.link.until(ev.ReplyDone)
        assert (await first.checkpoint()).turns.memory == {"sound": True}
        group.cancel_scope.cancel()
    assert [str(fault)[:20] for fault in first.observer.faults] == ["memory['list'][1] is"]
    first.link.close()
