"""Turns between two speakers: holds, interruptions, backchannels, turns that were not over, silence, keys, the end of a call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import anyio
import anyio.lowlevel
import pytest

from runtime.codec.checkpoint_message import KeptSession, decode_session, encode_session
from runtime.conversation.ports import ConversationLimits, Interruption
from runtime.dialogue import agent_events as ev
from runtime.dialogue.agent import Json, Role, Turn, TurnCause
from runtime.dialogue.caller_events import (
    AppendAudio,
    CommitAudio,
    Configure,
    Dtmf,
    Interrupt,
    ReportHeard,
    RequestReply,
    SayText,
)
from runtime.dialogue.session_settings import ServerVad
from runtime.dialogue.turn_table import Floor
from runtime.engines.errors import EngineBusy
from runtime.engines.ports import INPUT_RATE_HZ, RecognizedSpeech, Samples, Urgency
from runtime.engines.synthetic import SettableRecognizer, ToneSynthesizer
from runtime.primitives.reasons import EndReason
from tests.support.call_parts import ScriptedAgent, noise, quiet, tool
from tests.support.local_runtime import until
from tests.support.sessions import MANUAL, SETTINGS, Session, session

pytestmark = pytest.mark.anyio

_ANSWER = "It is a long way to the top of the hill."
_ANSWER_MS = len(_ANSWER) * ToneSynthesizer.MS_PER_CHARACTER


def _hears(short: str, long: str = "how far is it") -> SettableRecognizer:
    """Hears one text in what is shorter than 0.8 s with its padding, another in the rest."""

    def words(samples: Samples) -> str:
        return short if samples.size < 0.8 * INPUT_RATE_HZ else long

    return SettableRecognizer(words)


async def _until_it_speaks(call: Session, frames: int = 25) -> None:
    await call.link.do(*noise(0.8), *quiet(0.4))
    await call.link.until(ev.ReplyAudio, frames)


def _audio_ms(call: Session, generation: int = 1) -> float:
    return sum(len(frame.pcm) for frame in call.link.of(ev.ReplyAudio) if frame.generation == generation) / 48


@pytest.mark.parametrize("short", ["Uh-huh.", ""])
async def test_a_backchannel_or_noise_holds_the_output_and_it_goes_on_where_it_stopped(short: str) -> None:  # requirement V2
    async with session(_ANSWER, recognizer=_hears(short), lead_ms=40) as call:
        await _until_it_speaks(call)
        await call.link.do(*noise(0.3), *quiet(0.5))
        resumed = await call.link.until(ev.OutputResumed)
        done = await call.link.until(ev.ReplyDone)
        told = call.link.told
        held_at, resumed_at = told.index(call.link.of(ev.OutputHeld)[0]), told.index(resumed)
        assert not [event for event in told[held_at:resumed_at] if isinstance(event, ev.ReplyAudio)]
        assert (done.status, done.text) == (ev.ReplyStatus.COMPLETED, _ANSWER)
        assert _audio_ms(call) == pytest.approx(_ANSWER_MS, abs=1)  # nothing was lost and nothing said twice
        assert not call.link.of(ev.Flush)
        assert len(call.link.of(ev.SpeechStarted)) == 1
    assert call.observer.interruptions == [Interruption.RESUMED]
    assert call.observer.stale_sends == 0


async def test_play_out_that_is_reported_to_its_end_was_heard_whole() -> None:  # requirement V2
    """A telephone tells how far it is after the last frame has left as well, in what it really plays: no whole frames."""

    class _Odd(ToneSynthesizer):
        async def synthesize(self, text: str, *, is_first: bool = False) -> Samples:
            return (await super().synthesize(text, is_first=is_first))[:-168]  # 7 ms at 24 kHz

    whole_ms = _ANSWER_MS - 7
    agent = ScriptedAgent(_ANSWER)
    async with session(agent, recognizer=_hears("yes"), synthesizer=_Odd()) as call:
        await call.link.do(*noise(0.8), *quiet(0.4))
        await call.link.until(ev.ReplyDone)
        await call.link.do(ReportHeard(1, whole_ms // 2), SayText("a"), RequestReply())
        await call.link.until(ev.ReplyDone, 2)
        assert not agent.turns[1].history[1].is_complete
        await call.link.do(ReportHeard(2, whole_ms // 2), ReportHeard(2, whole_ms), SayText("b"), RequestReply())
        await call.link.until(ev.ReplyDone, 3)
    assert (agent.turns[2].history[3].text, agent.turns[2].history[3].is_complete) == (_ANSWER, True)


async def test_a_reply_that_is_stopped_as_it_ends_ends_once() -> None:
    """Whatever step the stop comes in."""
    for steps in range(25):
        async with session("One two. Three.", settings=replace(MANUAL, speaks=False)) as call:
            turns = call.conversation._turns
            await call.link.do(SayText("hi"), RequestReply("r"))
            while turns.speaker.reply is None:
                await anyio.lowlevel.checkpoint()
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            turns.interrupt("x")
            await call.link.until(ev.ReplyDone)
            await anyio.wait_all_tasks_blocked()
            (done,) = call.link.of(ev.ReplyDone)
            said = [said.is_complete for said in turns.context.history if said.role is Role.AGENT]
            assert said in ([[True]] if done.status is ev.ReplyStatus.COMPLETED else [[], [False]])


async def test_more_speech_over_the_reply_before_the_words_are_there_counts_together() -> None:  # requirement V2
    class _Slow(SettableRecognizer):
        gate = anyio.Event()
        asked: ClassVar[list[tuple[int, bool]]] = []

        async def recognize(self, samples: Samples, urgency: Urgency | None = None) -> RecognizedSpeech:
            assert urgency is not None
            self.asked.append((samples.size, urgency.is_awaited))
            await self.gate.wait()
            return await super().recognize(samples)

    recognizer = _Slow("stop please")
    recognizer.gate.set()
    settings = replace(SETTINGS, turn_detection=ServerVad(silence_duration_ms=200, is_adaptive=False))
    async with session(_ANSWER, recognizer=recognizer, settings=settings, lead_ms=40) as call:
        await _until_it_speaks(call)
        recognizer.gate = anyio.Event()
        recognizer.asked.clear()
        await call.link.do(*noise(0.3), *quiet(0.3))
        await until(lambda: call.conversation._turns.held_turn is not None)
        await call.link.do(*noise(0.3), *quiet(0.3))
        await until(lambda: len(recognizer.asked) == 2 and call.conversation._turns.held_turn is not None)
        recognizer.gate.set()
        heard = await call.link.until(ev.TranscriptReady, 2)
        assert heard.audio_ms > 900, "both, and what was between them"
        assert len(call.link.of(ev.InputCommitted)) == 2
    (first, first_awaited), (both, both_awaited) = recognizer.asked
    assert both > first + 0.5 * INPUT_RATE_HZ
    assert (first_awaited, both_awaited) == (True, True)  # the reply is held until they are there


async def test_a_commit_of_too_little_leaves_the_turn_open() -> None:
    vad = ServerVad(silence_duration_ms=200, prefix_padding_ms=0, is_adaptive=False)
    async with session("Yes.", settings=replace(SETTINGS, turn_detection=vad)) as call:
        await call.link.do(*quiet(0.3))
        for event in noise(1.0):
            await call.link.do(event)
            await anyio.wait_all_tasks_blocked()
            if call.conversation._turns.ear.is_hearing_speech:
                break
        await call.link.do(CommitAudio("c"))
        assert (await call.link.until(ev.SoftError)).code == "input_audio_buffer_commit_empty"
        await call.link.do(*noise(0.3), *quiet(0.5))
        assert (await call.link.until(ev.ReplyDone)).status is ev.ReplyStatus.COMPLETED
        assert len(call.link.of(ev.InputCommitted)) == 1


async def test_what_waits_for_a_slow_caller_is_held_as_well() -> None:  # requirement V2
    async with session(_ANSWER, recognizer=_hears("Uh-huh."), lead_ms=40) as call:
        await _until_it_speaks(call)
        call.link.is_stalled = True
        await until(lambda: call.conversation.waiting_events > 3)
        await call.link.do(*noise(0.3))
        await until(lambda: bool(call.observer.held_ms))
        waiting, since_s, told_before = call.conversation.waiting_events, anyio.current_time(), len(call.link.told)
        await until(lambda: anyio.current_time() > since_s + 0.2)  # time for ten frames, if any could leave
        assert call.conversation.waiting_events == waiting
        call.link.resume()
        await call.link.until(ev.OutputHeld)
        on_its_way = [event for event in call.link.told[told_before:] if isinstance(event, ev.ReplyAudio)]
        assert len(on_its_way) == 1  # what was being sent cannot be held
        await call.link.do(*quiet(0.5))
        resumed = await call.link.until(ev.OutputResumed)
        await call.link.until(ev.ReplyDone)
        told = call.link.told
        between = told[told.index(call.link.of(ev.OutputHeld)[0]) : told.index(resumed)]
        assert not [event for event in between if isinstance(event, ev.ReplyAudio)]
        assert _audio_ms(call) == pytest.approx(_ANSWER_MS, abs=1)


async def test_a_short_word_that_means_something_interrupts() -> None:
    agent = ScriptedAgent(_ANSWER)
    async with session(agent, recognizer=_hears("Stop."), lead_ms=40) as call:
        await _until_it_speaks(call)
        await call.link.do(*noise(0.3), *quiet(0.6))
        await call.link.until(ev.ReplyStarted, 2)
        kinds = [type(event) for event in call.link.told]
        kinds = kinds[kinds.index(ev.OutputHeld) :]
        expected = [ev.OutputHeld, ev.Flush, ev.SpeechStarted, ev.ReplyDone, ev.SpeechStopped, ev.InputCommitted]
        assert [kind for kind in kinds if kind is not ev.ReplyAudio][:6] == expected
        assert call.link.of(ev.ReplyDone)[0].status is ev.ReplyStatus.INTERRUPTED
    assert agent.turns[1].text == "Stop."
    assert call.observer.interruptions == [Interruption.STOPPED]


async def test_speech_that_goes_on_interrupts_before_its_words_are_known() -> None:
    async with session(_ANSWER, recognizer=_hears("Uh-huh."), lead_ms=40) as call:
        await _until_it_speaks(call)
        await call.link.do(*noise(0.8))
        await call.link.until(ev.Flush)
        assert call.link.of(ev.OutputHeld)
        assert not call.link.of(ev.OutputResumed)
    assert len(call.observer.held_ms) == 1


async def test_a_microphone_that_closes_in_mid_word_does_not_silence_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.conversation.hold_watch._LONGEST_S", 0.05)
    async with session(_ANSWER, recognizer=_hears("Uh-huh."), lead_ms=40) as call:
        await _until_it_speaks(call)
        await call.link.do(*noise(0.3))
        await call.link.until(ev.OutputResumed)
        assert (await call.link.until(ev.ReplyDone)).status is ev.ReplyStatus.COMPLETED


async def test_who_goes_on_before_much_was_heard_had_not_finished() -> None:  # requirement V3
    async def answer(turn: Turn) -> AsyncIterator[str]:
        turn.memory["turns"] = int(str(turn.memory.get("turns", 0))) + 1
        yield _ANSWER

    agent = ScriptedAgent(answer)
    async with session(agent, lead_ms=40) as call:
        await _until_it_speaks(call, frames=2)
        await call.link.do(*noise(0.6))
        withdrawn = await call.link.until(ev.InputWithdrawn)
        await call.link.do(*quiet(0.4))
        await call.link.until(ev.ReplyStarted, 2)
        await call.link.until(ev.ReplyAudio, 30)
        first, second = call.link.of(ev.TranscriptReady)
        assert withdrawn.item_id == first.item_id == call.link.of(ev.InputCommitted)[0].item_id
        assert second.audio_ms > first.audio_ms + 500  # both stretches
        assert call.link.of(ev.ReplyDone)[0].status is ev.ReplyStatus.WITHDRAWN
        assert call.link.of(ev.InputCommitted)[1].previous_item_id == ""
        flushed_at = call.link.told.index(call.link.of(ev.Flush)[0])
        assert {frame.generation for frame in call.link.told[flushed_at:] if isinstance(frame, ev.ReplyAudio)} == {2}
    assert not agent.turns[1].history
    assert agent.turns[1].memory == {"turns": 1}  # the first answer was never given
    assert call.observer.withdrawn == [Floor.SPEAKING]


async def test_a_turn_that_was_acted_upon_is_not_taken_back() -> None:
    async def book(_: Mapping[str, Json], __: str) -> Json:
        return True

    async def answer(turn: Turn) -> AsyncIterator[str]:
        await turn.call_tool("book", {})
        yield _ANSWER

    async with session(ScriptedAgent(answer, [tool("book", book)]), lead_ms=40) as call:
        await _until_it_speaks(call, frames=2)
        await call.link.do(*noise(0.9))
        assert (await call.link.until(ev.ReplyDone)).status is ev.ReplyStatus.INTERRUPTED
        assert not call.link.of(ev.InputWithdrawn)


async def test_words_that_leave_a_sentence_open_are_waited_for() -> None:
    settings = replace(SETTINGS, turn_detection=ServerVad(silence_duration_ms=400))
    for text, commits in (("a table for", 0), ("a table.", 1)):
        async with session(_ANSWER, recognizer=SettableRecognizer(text), settings=settings) as call:
            await call.link.do(*noise(0.6), *quiet(0.44))
            await call.link.do(*noise(0.02))  # read when all before it was heard
            with anyio.fail_after(20):
                while call.link.waiting:
                    await anyio.wait_all_tasks_blocked()
            assert len(call.link.of(ev.InputCommitted)) == commits


async def test_a_classifier_may_shorten_the_wait_but_not_that_for_an_open_sentence() -> None:
    class _Certain:
        async def finished_ratio(self, samples: Samples) -> float:
            return 0.9

    settings = replace(SETTINGS, turn_detection=ServerVad(silence_duration_ms=800))
    for text, commits in (("a table for", 0), ("a table", 1)):
        async with session(_ANSWER, recognizer=SettableRecognizer(text), settings=settings, end_of_turn=_Certain()) as call:
            await call.link.do(*noise(0.6))
            for frame in quiet(0.55):  # 0.6 times 0.64 s is over by then
                await call.link.do(frame)
                await until(lambda: not call.link.waiting)
                await anyio.wait_all_tasks_blocked()
            assert len(call.link.of(ev.InputCommitted)) == commits


async def test_what_the_caller_reports_beats_the_estimate() -> None:
    agent = ScriptedAgent("one two three four five six seven eight nine ten.")
    async with session(agent, lead_ms=5_000) as call:
        await _until_it_speaks(call, frames=60)
        await call.link.do(ReportHeard(1, 500), Interrupt())
        done = await call.link.until(ev.ReplyDone)
        assert done.text == "one two"


async def test_a_silent_caller_is_asked_some_times_and_no_more() -> None:  # requirement U1
    settings = replace(SETTINGS, turn_detection=ServerVad(silence_duration_ms=200, idle_timeout_ms=1_000))
    agent = ScriptedAgent("Hm?")
    async with session(agent, settings=settings) as call:
        for count in (1, 2, 3):
            await call.link.do(*quiet(7))
            await call.link.until(ev.ReplyDone, count)
        await call.link.do(*quiet(14), *noise(0.6), *quiet(0.4))
        await call.link.until(ev.ReplyDone, 4)
    assert [(turn.cause, turn.silences) for turn in agent.turns] == [
        (TurnCause.SILENCE, 1),
        (TurnCause.SILENCE, 2),
        (TurnCause.SILENCE, 3),
        (TurnCause.SPOKEN, 0),
    ]


async def test_the_agent_ends_the_call_when_its_last_word_was_heard() -> None:  # requirement U1
    async def answer(turn: Turn) -> AsyncIterator[str]:
        turn.end_call()
        yield "Goodbye."

    async with session(ScriptedAgent(answer), lead_ms=200) as call:
        await call.link.do(*noise(0.8), *quiet(0.4))
        assert await call.end() is EndReason.CLOSED_BY_AGENT
        assert _audio_ms(call) == pytest.approx(8 * ToneSynthesizer.MS_PER_CHARACTER, abs=1)
        assert call.link.told[-1] == ev.SessionClosed(EndReason.CLOSED_BY_AGENT)


async def test_who_interrupts_a_goodbye_keeps_the_call() -> None:
    async def answer(turn: Turn) -> AsyncIterator[str]:
        if not turn.history:
            turn.end_call()
        yield _ANSWER

    async with session(ScriptedAgent(answer), lead_ms=40) as call:
        await _until_it_speaks(call)
        await call.link.do(*noise(0.9), *quiet(0.4))
        await call.link.until(ev.ReplyDone, 2)
        assert call.reason is None


async def test_a_transfer_is_asked_for_when_it_was_announced() -> None:
    async def answer(turn: Turn) -> AsyncIterator[str]:
        turn.transfer("billing")
        yield "One moment."

    async with session(ScriptedAgent(answer)) as call:
        await call.link.do(*noise(0.8), *quiet(0.4))
        transfer = await call.link.until(ev.TransferRequested)
        assert transfer.target == "billing"
        assert isinstance(call.link.told[-2], ev.ReplyDone)


async def test_keys_are_a_turn() -> None:
    agent = ScriptedAgent("Thank you.")
    async with session(agent) as call:
        await call.link.do(Dtmf("4"), Dtmf("2"), Dtmf("#"))
        await call.link.until(ev.ReplyDone)
        assert [event.digit for event in call.link.of(ev.DtmfReceived)] == ["4", "2", "#"]
    assert (agent.turns[0].text, agent.turns[0].cause) == ("42", TurnCause.KEYS)


@pytest.mark.parametrize("short", ["Mm-hmm.", ""])
async def test_a_backchannel_or_noise_while_a_tool_runs_stops_nothing(short: str) -> None:  # requirement V2
    may_finish, keys = anyio.Event(), []

    async def book(_: Mapping[str, Json], key: str) -> Json:
        keys.append(key)
        await may_finish.wait()
        return True

    async def answer(turn: Turn) -> AsyncIterator[str]:
        await turn.call_tool("book", {})
        yield _ANSWER

    async with session(ScriptedAgent(answer, [tool("book", book)]), recognizer=_hears(short), lead_ms=40) as call:
        await call.link.do(*noise(0.8), *quiet(0.4))
        await call.link.until(ev.ToolStarted)
        await call.link.do(*noise(0.3))
        await until(lambda: call.conversation._turns.keeper.floor is Floor.DOUBTING)
        may_finish.set()
        await call.link.until(ev.ReplyText)  # it goes on being made
        since_s = anyio.current_time()
        await until(lambda: anyio.current_time() > since_s + 0.2)
        assert not call.link.of(ev.ReplyAudio)  # and is not heard
        await call.link.do(*quiet(0.6))
        done = await call.link.until(ev.ReplyDone)
        assert (done.status, done.text) == (ev.ReplyStatus.COMPLETED, _ANSWER)
        assert _audio_ms(call) == pytest.approx(_ANSWER_MS, abs=1)
        assert not call.link.of(ev.OutputHeld)
        assert not call.link.of(ev.OutputResumed)
        assert len(call.link.of(ev.SpeechStarted)) == 1
    assert len(keys) == 1
    assert not call.observer.interruptions


@pytest.mark.parametrize(("seconds", "long"), [(0.3, "Stop."), (0.9, "Uh-huh.")])
async def test_words_or_long_speech_while_the_agent_thinks_cancel_its_reply(seconds: float, long: str) -> None:
    asked = anyio.Event()

    async def answer(turn: Turn) -> AsyncIterator[str]:
        if not turn.history:
            asked.set()
            await anyio.sleep_forever()
        yield _ANSWER

    agent = ScriptedAgent(answer)
    async with session(agent, recognizer=SettableRecognizer(long), lead_ms=40) as call:
        await call.link.do(SayText("hello"), RequestReply())
        await asked.wait()
        await call.link.do(*noise(seconds), *quiet(0.6))
        await call.link.until(ev.ReplyDone, 2)
        assert [done.status for done in call.link.of(ev.ReplyDone)] == [ev.ReplyStatus.INTERRUPTED, ev.ReplyStatus.COMPLETED]
    assert [turn.text for turn in agent.turns] == ["hello", long]


async def test_a_session_may_be_moved_while_it_is_open_whether_the_caller_interrupts() -> None:
    async def answer(turn: Turn) -> AsyncIterator[str]:
        await anyio.sleep_forever()
        yield ""

    async with session(ScriptedAgent(answer), recognizer=_hears(""), lead_ms=40) as call:
        await call.link.do(SayText("hello"), RequestReply(), *noise(0.3))
        await until(lambda: call.conversation._turns.keeper.floor is Floor.DOUBTING)
        await until(lambda: not call.link.waiting)
        kept = decode_session(encode_session(KeptSession(call.conversation.checkpoint()))).checkpoint
        assert kept.turns.floor is Floor.DOUBTING
    audio = [(ordinal, event.pcm) for ordinal, event in enumerate(noise(0.3), 3) if isinstance(event, AppendAudio)]
    moved = Session(ScriptedAgent(_ANSWER), _hears(""), SETTINGS, ConversationLimits(lead_ms=40))
    await moved.conversation.restore(kept, [each for each in audio if each[0] >= kept.audio_from])
    async with anyio.create_task_group() as group:
        group.start_soon(moved.conversation.run, moved.link, None)
        moved.conversation.go_on((), 0, 0)
        await until(lambda: bool(moved.link.of(ev.ReplyText)))
        assert not moved.link.of(ev.ReplyAudio)
        await moved.link.do(*quiet(0.6))
        assert (await moved.link.until(ev.ReplyDone)).text == _ANSWER
        moved.conversation.stop(EndReason.CLOSED_BY_CALLER)
    moved.link.close()


async def test_turn_detection_that_is_switched_off_and_on_makes_no_turn_of_its_own() -> None:
    async with session(lead_ms=40) as call:
        await call.link.do(*noise(0.5), Configure(MANUAL), CommitAudio("c"), RequestReply("r"))
        await call.link.until(ev.ReplyDone)
        await call.link.do(*quiet(0.3), Configure(SETTINGS), *quiet(1))
        await until(lambda: not call.link.waiting)
        assert len(call.link.of(ev.InputCommitted)) == 1
        assert not call.link.of(ev.OutputHeld)
        await call.link.do(*noise(0.5), *quiet(0.4))
        ready = await call.link.until(ev.TranscriptReady, 2)
        assert 500 < ready.audio_ms < 1_100  # the speech with its padding, and nothing from before
        await call.link.until(ev.ReplyDone, 2)


async def test_speech_that_was_heard_when_detection_ended_does_not_keep_the_floor() -> None:
    async with session(lead_ms=40) as call:
        await call.link.do(*noise(0.5), Configure(MANUAL), RequestReply("r"))
        assert (await call.link.until(ev.ReplyDone)).status is ev.ReplyStatus.COMPLETED
        await call.link.do(CommitAudio("c"))
        assert (await call.link.until(ev.TranscriptReady)).audio_ms == 480  # it is there to be committed


async def test_a_recogniser_with_too_much_to_do_proves_nothing() -> None:
    class _BusyOnceAnswered(SettableRecognizer):
        async def recognize(self, samples: Samples, urgency: Any = None) -> Any:
            if samples.size < 0.8 * INPUT_RATE_HZ:
                raise EngineBusy("stt", 1)
            return await super().recognize(samples)

    async with session(_ANSWER, recognizer=_BusyOnceAnswered("how far is it"), lead_ms=40) as call:
        await _until_it_speaks(call)
        await call.link.do(*noise(0.3), *quiet(0.5))
        await call.link.until(ev.OutputResumed)
        assert (await call.link.until(ev.ReplyDone)).status is ev.ReplyStatus.COMPLETED


async def test_what_is_proven_in_a_pause_goes_on_from_that_pause() -> None:
    settings = replace(SETTINGS, turn_detection=ServerVad(silence_duration_ms=600, is_adaptive=False))
    async with session(_ANSWER, recognizer=_hears("Stop."), settings=settings, lead_ms=40) as call:
        await call.link.do(*noise(0.8), *quiet(0.8))
        await call.link.until(ev.ReplyAudio, 25)
        await call.link.do(*noise(0.3), *quiet(0.45))
        await call.link.until(ev.Flush)
        assert call.conversation._turns.keeper.floor is Floor.DECIDING
        assert len(call.link.of(ev.InputCommitted)) == 1


async def test_a_reply_of_which_much_was_heard_is_not_taken_back_any_more() -> None:  # requirement V3
    async with session(_ANSWER, lead_ms=40) as call:
        await _until_it_speaks(call, frames=2)
        speaker = call.conversation._turns.speaker
        assert speaker.is_reversible
        assert speaker.reply is not None
        mouth = speaker.reply.mouth
        await until(lambda: mouth.heard_ms() >= 300)
        assert not speaker.is_reversible


async def test_a_tool_of_a_turn_that_was_taken_back_runs_once() -> None:  # requirement C3
    keys: list[str] = []

    async def look(_: Mapping[str, Json], key: str) -> Json:
        keys.append(key)
        return True

    async def answer(turn: Turn) -> AsyncIterator[str]:
        await turn.call_tool("look", {})
        yield _ANSWER

    async with session(ScriptedAgent(answer, [tool("look", look, is_idempotent=True)]), lead_ms=40) as call:
        await _until_it_speaks(call, frames=2)
        await call.link.do(*noise(0.6))
        await call.link.until(ev.InputWithdrawn)
        await call.link.do(*quiet(0.4))
        await call.link.until(ev.ReplyAudio, 30)
        assert len(call.link.of(ev.ToolFinished)) == 2
    assert len(keys) == 1


async def test_a_text_that_was_read_is_not_taken_back() -> None:
    async def answer(_: Turn) -> AsyncIterator[str]:
        yield "It is a long way. "
        await anyio.sleep_forever()

    settings = replace(SETTINGS, speaks=False)
    async with session(ScriptedAgent(answer), settings=settings) as call:
        await call.link.do(*noise(0.8), *quiet(0.4))
        await call.link.until(ev.ReplyText)
        await call.link.do(*noise(0.9))
        done = await call.link.until(ev.ReplyDone)
        assert (done.status, done.text) == (ev.ReplyStatus.INTERRUPTED, "It is a long way.")
        assert not call.link.of(ev.InputWithdrawn)


async def test_a_reply_that_fails_while_it_is_held_holds_no_later_one() -> None:
    may_fail = anyio.Event()

    class _FailsLater(ToneSynthesizer):
        async def synthesize(self, text: str, *, is_first: bool = False) -> Samples:
            if "fails" in text:
                await may_fail.wait()
                raise EngineBusy("tts", 1)
            return await super().synthesize(text, is_first=is_first)

    async def answer(turn: Turn) -> AsyncIterator[str]:
        yield _ANSWER if turn.history else f"{_ANSWER} And this fails."

    async with session(ScriptedAgent(answer), recognizer=_hears(""), synthesizer=_FailsLater(), lead_ms=40) as call:
        await _until_it_speaks(call)
        await call.link.do(*noise(0.3))
        await call.link.until(ev.OutputHeld)
        may_fail.set()
        assert (await call.link.until(ev.ReplyDone)).status is ev.ReplyStatus.FAILED
        await call.link.do(*quiet(0.5), SayText("again"), RequestReply())
        assert (await call.link.until(ev.ReplyDone, 2)).status is ev.ReplyStatus.COMPLETED
        assert _audio_ms(call, 2) == pytest.approx(_ANSWER_MS, abs=1)
