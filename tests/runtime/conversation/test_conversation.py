"""One session from first message to end, on synthetic engines and a scripted caller."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio
import pytest

from runtime.conversation.ports import ConversationLimits
from runtime.conversation.reply import APOLOGY
from runtime.dialogue import agent_events as ev
from runtime.dialogue.agent import Json, Role, ToolFailure, Turn
from runtime.dialogue.caller_events import (
    ClearAudio,
    CommitAudio,
    Configure,
    EndOfInput,
    Goodbye,
    Interrupt,
    Invalid,
    ReportHeard,
    RequestReply,
    SayText,
)
from runtime.engines.synthetic import SettableRecognizer
from runtime.primitives.reasons import EndReason
from tests.support.call_parts import ScriptedAgent, noise, quiet, tool
from tests.support.sessions import GREETING, MANUAL, SETTINGS, Session
from tests.support.sessions import session as open_session

pytestmark = pytest.mark.anyio


async def test_a_spoken_turn_is_answered() -> None:  # requirement V1
    agent = ScriptedAgent("Very well. Anything else?")
    async with open_session(agent) as session:
        await session.link.do(*noise(0.5), *quiet(0.4))
        done = await session.link.until(ev.ReplyDone)
        assert session.link.told[0] == GREETING
        kinds = [type(event) for event in session.link.told if not isinstance(event, (ev.ReplyAudio, ev.ReplyText))]
        assert kinds == [
            ev.SessionOpened,
            ev.SpeechStarted,
            ev.SpeechStopped,
            ev.InputCommitted,
            ev.TranscriptReady,
            ev.ReplyStarted,
            ev.ReplyDone,
        ]
        assert session.link.of(ev.TranscriptReady)[0].text == "good morning"
        assert "".join(text.delta for text in session.link.of(ev.ReplyText)) == done.text == "Very well. Anything else?"
        audio_ms = sum(len(frame.pcm) for frame in session.link.of(ev.ReplyAudio)) / 48
        assert audio_ms == pytest.approx(60 * len("Very well.Anything else?"), abs=25)
        assert all(len(frame.pcm) <= 960 for frame in session.link.of(ev.ReplyAudio))
    assert session.observer.starts == 1
    assert session.observer.ends == [EndReason.CLOSED_BY_CALLER]
    (latency,) = session.observer.latencies
    assert 0 <= latency.decided_ms <= latency.transcript_ms <= latency.first_text_ms <= latency.first_audio_ms


async def test_speech_stopped_names_the_last_voiced_moment() -> None:
    async with open_session() as session:
        await session.link.do(*quiet(0.32), *noise(0.64), *quiet(0.4))
        stopped = await session.link.until(ev.SpeechStopped)
        assert stopped.voiced_until_ms == pytest.approx(960, abs=64)
        assert stopped.media_time_ms == pytest.approx(960 + 200, abs=64)


async def test_the_history_holds_both_sides() -> None:
    agent = ScriptedAgent("Yes.")
    async with open_session(agent) as session:
        for turn in (1, 2):
            await session.link.do(*noise(0.4), *quiet(0.4))
            await session.link.until(ev.ReplyDone, turn)
    assert [said.text for said in agent.turns[1].history] == ["good morning", "Yes."]
    assert agent.turns[1].text == "good morning"


async def test_barge_in_stops_the_reply_and_no_stale_audio_follows() -> None:  # requirement V2, bug R50, R51
    agent = ScriptedAgent("This is a long answer that goes on and on, far longer than anybody would like to listen to it.")
    async with open_session(agent, lead_ms=40) as session:
        await session.link.do(*noise(0.4), *quiet(0.4))
        await session.link.until(ev.ReplyAudio, 20)
        await session.link.do(*noise(0.8))
        flush = await session.link.until(ev.Flush)
        done = await session.link.until(ev.ReplyDone)
        await session.link.do(*quiet(0.4))
        await session.link.until(ev.ReplyStarted, 2)
        at = session.link.told.index(flush)
        assert not [
            event
            for event in session.link.told[at:]
            if isinstance(event, (ev.ReplyAudio, ev.ReplyText)) and event.generation <= flush.generation
        ]
        assert done.status is ev.ReplyStatus.INTERRUPTED
        assert "This is".startswith(done.text[:7])
        await anyio.wait_all_tasks_blocked()
    interrupted = agent.turns[1].history[-1]
    assert (interrupted.role, interrupted.is_complete) == (Role.AGENT, False)


async def test_what_was_really_heard_corrects_the_history() -> None:
    agent = ScriptedAgent("one two three four five six seven eight nine ten.")
    async with open_session(agent, lead_ms=40) as session:
        await session.link.do(*noise(0.4), *quiet(0.4))
        await session.link.until(ev.ReplyAudio, 30)
        await session.link.do(Interrupt(), ReportHeard(0, 300), *noise(0.4), *quiet(0.4))
        await session.link.until(ev.ReplyDone, 2)
    assert agent.turns[1].history[-1].text == "one"


async def test_going_on_before_the_transcript_withdraws_the_turn() -> None:  # requirement V3
    started, go_on = anyio.Event(), anyio.Event()

    class _Slow(SettableRecognizer):
        async def recognize(self, samples: Any, urgency: Any = None) -> Any:
            started.set()
            await go_on.wait()
            return await super().recognize(samples)

    agent = ScriptedAgent("Yes.")
    async with open_session(agent, recognizer=_Slow()) as session:
        await session.link.do(*noise(0.5), *quiet(0.3))
        with anyio.fail_after(10):
            await started.wait()
        await session.link.do(*noise(0.5))
        withdrawn = await session.link.until(ev.InputWithdrawn)
        go_on.set()
        await session.link.do(*quiet(0.4))
        await session.link.until(ev.ReplyDone)
        assert withdrawn.item_id == session.link.of(ev.InputCommitted)[0].item_id
        (transcript,) = session.link.of(ev.TranscriptReady)
        assert transcript.audio_ms > 1000  # both stretches
    assert len(agent.turns) == 1


async def test_a_tool_runs_and_is_announced() -> None:
    keys: list[str] = []

    async def book(arguments: Mapping[str, Json], key: str) -> Json:
        keys.append(key)
        return {"booked": arguments["people"]}

    async def answer(turn: Turn) -> AsyncIterator[str]:
        result = await turn.call_tool("book", {"people": 4})
        yield f"Done: {result}."

    async with open_session(ScriptedAgent(answer, [tool("book", book)])) as session:
        await session.link.do(*noise(0.4), *quiet(0.4))
        await session.link.until(ev.ReplyDone)
        assert session.link.of(ev.ToolStarted)[0].arguments_json == '{"people": 4}'
        assert session.link.of(ev.ToolFinished)[0].result_json == '{"booked": 4}'
    (key,) = keys
    assert re.fullmatch(r"s:[0-9a-f]+:1:1", key)


@pytest.mark.parametrize("fault", [ToolFailure("the book is closed"), RuntimeError("secret words"), None])
async def test_a_tool_that_fails_becomes_speech(fault: Exception | None) -> None:
    async def book(_: Mapping[str, Json], __: str) -> Json:
        if fault is None:
            await anyio.sleep_forever()
        raise fault or AssertionError

    async def answer(turn: Turn) -> AsyncIterator[str]:
        try:
            await turn.call_tool("book", {})
        except ToolFailure as failure:
            yield f"Sorry, {failure}."

    async with open_session(ScriptedAgent(answer, [tool("book", book, deadline_s=0.05)])) as session:
        await session.link.do(*noise(0.4), *quiet(0.4))
        done = await session.link.until(ev.ReplyDone)
        assert done.text.startswith("Sorry, ")
        assert "secret" not in done.text
        assert session.link.of(ev.ToolFinished)[0].is_error


async def test_an_agent_that_raises_is_answered_with_an_apology_and_the_call_goes_on() -> None:
    async def answer(turn: Turn) -> AsyncIterator[str]:
        if not turn.history:
            raise RuntimeError("what the caller said")
        yield "Better now."

    async with open_session(ScriptedAgent(answer)) as session:
        await session.link.do(*noise(0.4), *quiet(0.4))
        first = await session.link.until(ev.ReplyDone)
        await session.link.do(*noise(0.4), *quiet(0.4))
        second = await session.link.until(ev.ReplyDone, 2)
        assert (first.status, first.text) == (ev.ReplyStatus.FAILED, APOLOGY)
        assert second.text == "Better now."
    assert len(session.observer.faults) == 1


async def test_manual_mode_answers_when_asked() -> None:
    async with open_session(settings=MANUAL) as session:
        await session.link.do(*noise(0.4), CommitAudio())
        await session.link.until(ev.TranscriptReady)
        assert not session.link.of(ev.ReplyStarted)
        await session.link.do(RequestReply())
        await session.link.until(ev.ReplyDone)


async def test_committing_nothing_is_a_soft_error() -> None:
    async with open_session(settings=MANUAL) as session:
        await session.link.do(CommitAudio("e1"), *noise(0.04), CommitAudio("e2"))
        error = await session.link.until(ev.SoftError, 2)
        assert error.code == "input_audio_buffer_commit_empty"
        assert error.event_id == "e2"


async def test_cleared_audio_is_forgotten() -> None:
    async with open_session(settings=MANUAL) as session:
        await session.link.do(*noise(0.4), ClearAudio(), CommitAudio())
        await session.link.until(ev.SoftError)
        assert session.link.of(ev.InputCleared)


async def test_typed_turns_work() -> None:
    agent = ScriptedAgent("Yes.")
    async with open_session(agent) as session:
        await session.link.do(SayText("hello", "mine"), RequestReply())
        await session.link.until(ev.ReplyDone)
        assert session.link.of(ev.TextAdded)[0].item_id == "mine"
    assert agent.turns[0].text == "hello"


async def test_one_reply_at_a_time_and_nothing_to_cancel() -> None:  # bug R54
    async with open_session("A rather long answer that takes its time.", lead_ms=40) as session:
        await session.link.do(Interrupt("c0"), SayText("hello"), RequestReply(), RequestReply("r2"))
        await session.link.until(ev.ReplyAudio)
        await session.link.do(Interrupt(), Interrupt("c2"))
        done = await session.link.until(ev.ReplyDone)
        await session.link.until(ev.SoftError, 3)
        codes = [(error.code, error.event_id) for error in session.link.of(ev.SoftError)]
        assert codes == [
            ("response_cancel_not_active", "c0"),
            ("conversation_already_has_active_response", "r2"),
            ("response_cancel_not_active", "c2"),
        ]
        assert done.status is ev.ReplyStatus.CANCELLED


async def test_invalid_messages_are_answered_and_start_no_session() -> None:  # requirement S1
    async with open_session() as session:
        await session.link.do(Invalid("unknown_event", "type is 'x'", "e"))
        await session.link.until(ev.SoftError)
        assert session.observer.starts == 0


async def test_a_cough_is_not_answered_but_mumbling_is() -> None:
    agent = ScriptedAgent("Pardon?")
    async with open_session(agent, hears="") as session:
        await session.link.do(*noise(0.3), *quiet(0.4))
        await session.link.until(ev.TranscriptReady)
        await session.link.do(*noise(1.5), *quiet(0.4))
        await session.link.until(ev.ReplyDone)
    assert [turn.text for turn in agent.turns] == [""]


async def test_half_close_still_gets_its_answer() -> None:
    async with open_session() as session:
        await session.link.do(*noise(0.5), EndOfInput(), Goodbye(after_reply=True))
        await session.link.until(ev.ReplyDone)
        assert await session.end() is EndReason.CLOSED_BY_CALLER
    assert isinstance(session.link.told[-1], ev.SessionClosed)


async def test_settings_change_on_the_way() -> None:
    async with open_session() as session:
        await session.link.do(Configure(MANUAL), *noise(0.4), *quiet(0.6), CommitAudio())
        await session.link.until(ev.TranscriptReady)
        assert session.link.of(ev.SessionConfigured)[0].settings == MANUAL
        assert not session.link.of(ev.SpeechStarted)


@pytest.mark.parametrize(
    ("limits", "speaks", "reason"),
    [
        ({"first_message_s": 0.05}, False, EndReason.NEVER_SPOKE),
        ({"idle_s": 0.05}, True, EndReason.IDLE_TIMEOUT),
        ({"maximum_s": 0.05}, True, EndReason.MAXIMUM_LENGTH),
    ],
)
async def test_limits_end_the_session(limits: dict[str, float], speaks: bool, reason: EndReason) -> None:
    async with open_session(limits=limits) as session:
        if speaks:
            await session.link.do(ClearAudio())
        assert await session.end() is reason
    assert session.observer.ends == [reason]


async def test_a_lost_caller_ends_the_session_mid_speech() -> None:  # bug R2, R12
    async with open_session("A rather long answer that takes its time.", lead_ms=40) as session:
        await session.link.do(*noise(0.4), *quiet(0.4))
        await session.link.until(ev.ReplyAudio)
        session.link.hang_up()
        assert await session.end() is EndReason.CONNECTION_LOST
    assert not session.link.of(ev.SessionClosed)


async def test_a_caller_that_never_reads_loses_the_call() -> None:  # requirement V5
    async with open_session(slow_caller_s=0.1) as session:
        await session.link.until(ev.SessionOpened)
        session.link.is_stalled = True
        await session.link.do(ClearAudio())
        assert await session.end() is EndReason.SLOW_CALLER


async def test_a_flood_of_events_is_bounded() -> None:
    async with open_session(outbox_events=16, slow_caller_s=60.0) as session:
        await session.link.until(ev.SessionOpened)
        session.link.is_stalled = True
        await session.link.do(*[ClearAudio()] * 40)
        assert await session.end() is EndReason.SLOW_CALLER


async def test_a_place_that_is_gone_ends_at_the_first_message() -> None:
    async with open_session() as session:
        session.observer.is_held = False
        await session.link.do(ClearAudio())
        assert await session.end() is EndReason.NEVER_SPOKE


async def test_stop_is_told_before_an_agent_has_cleaned_up() -> None:  # bug R2: the slot is free whatever user code does
    cleaning, may_finish = anyio.Event(), anyio.Event()

    async def answer(_: Turn) -> AsyncIterator[str]:
        try:
            yield "One moment. "
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                cleaning.set()
                await may_finish.wait()

    async with open_session(ScriptedAgent(answer)) as session:
        await session.link.do(*noise(0.4), *quiet(0.4))
        await session.link.until(ev.ReplyText)
        session.conversation.stop(EndReason.DRAINED)
        assert session.observer.ends == [EndReason.DRAINED]
        with anyio.fail_after(10):
            await cleaning.wait()
        may_finish.set()
        assert await session.end() is EndReason.DRAINED


async def test_a_goodbye_that_waits_to_be_read_is_why_the_link_is_gone() -> None:
    async with open_session("A rather long answer that takes its time.", lead_ms=40) as session:
        await session.link.do(*noise(0.4), *quiet(0.4))
        await session.link.until(ev.ReplyAudio)
        session.link.is_broken = True
        with anyio.fail_after(20):
            await session.link.broke.wait()
        await session.link.do(Goodbye())
        assert await session.end() is EndReason.CLOSED_BY_CALLER


async def test_what_is_on_its_way_is_not_cut_before_the_goodbye() -> None:  # bug R57: grpc allows no write after a cancelled one
    async with open_session() as session:
        await session.link.until(ev.SessionOpened)
        session.link.is_stalled = True
        await session.link.do(ClearAudio())
        with anyio.fail_after(20):
            await session.link.stalled.wait()
        session.conversation.stop(EndReason.DRAINED)
        session.link.resume()
        assert await session.end() is EndReason.DRAINED
    assert [type(event) for event in session.link.told] == [ev.SessionOpened, ev.InputCleared, ev.SessionClosed]


async def test_no_goodbye_follows_an_event_that_was_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.conversation.conversation._GOODBYE_S", 0.05)
    async with open_session() as session:
        await session.link.until(ev.SessionOpened)
        session.link.is_stalled = True
        await session.link.do(ClearAudio())
        with anyio.fail_after(20):
            await session.link.stalled.wait()
        session.conversation.stop(EndReason.DRAINED)
        session.link.is_stalled = False
        assert await session.end() is EndReason.DRAINED
    assert not session.link.of(ev.SessionClosed)


async def test_a_handler_that_is_cancelled_has_lost_its_caller() -> None:  # bug R57
    session = Session(ScriptedAgent("Yes."), SettableRecognizer("hello"), SETTINGS, ConversationLimits())
    async with anyio.create_task_group() as group:
        group.start_soon(session.run)
        await session.link.until(ev.SessionOpened)
        group.cancel_scope.cancel()
    session.link.close()
    assert session.observer.ends == [EndReason.CONNECTION_LOST]
