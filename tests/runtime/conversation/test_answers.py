"""Replies that are due: each is given once or refused, whatever the caller says meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import anyio
import pytest

from runtime.dialogue import agent_events as ev
from runtime.dialogue.agent import Turn, TurnCause
from runtime.dialogue.caller_events import ClearAudio, CommitAudio, Dtmf, Goodbye, Interrupt, RequestReply, SayText
from runtime.dialogue.session_settings import ServerVad
from runtime.engines.errors import EngineBusy
from runtime.engines.ports import Samples
from runtime.engines.synthetic import SettableRecognizer
from tests.support.call_parts import ScriptedAgent, noise, quiet
from tests.support.local_runtime import until
from tests.support.sessions import MANUAL, SETTINGS, Session, session

pytestmark = pytest.mark.anyio

_VAD = ServerVad(silence_duration_ms=200, is_adaptive=False)
_ON_REQUEST = replace(SETTINGS, turn_detection=replace(_VAD, creates_response=False))
_UNINTERRUPTIBLE = replace(SETTINGS, turn_detection=replace(_VAD, interrupts_response=False))
_LONG = "It is a long way to the top of the hill."


class _Slow(SettableRecognizer):
    """Answers when it may."""

    def __init__(self, answer: Any = "good morning") -> None:
        super().__init__(answer)
        self.may_answer = anyio.Event()

    async def recognize(self, samples: Samples, urgency: Any = None) -> Any:
        await self.may_answer.wait()
        return await super().recognize(samples)


async def _read(call: Session) -> None:
    await until(lambda: not call.link.waiting)
    await anyio.wait_all_tasks_blocked()


@pytest.mark.parametrize("asks_at_once", [True, False])
async def test_who_asks_for_a_reply_to_silence_gets_one(asks_at_once: bool) -> None:
    agent = ScriptedAgent("Pardon?")
    async with session(agent, hears="", settings=MANUAL) as call:
        await call.link.do(*quiet(0.5), CommitAudio("c"))
        if not asks_at_once:
            await call.link.until(ev.TranscriptReady)
        await call.link.do(RequestReply("r"))
        await call.link.until(ev.ReplyDone)
    assert [(turn.text, turn.cause) for turn in agent.turns] == [("", TurnCause.TYPED)]


async def test_who_asks_for_a_reply_that_nobody_can_make_is_told() -> None:
    class _Busy(_Slow):
        async def recognize(self, samples: Samples, urgency: Any = None) -> Any:
            await self.may_answer.wait()
            raise EngineBusy("stt", 1)

    recognizer = _Busy()
    async with session(settings=MANUAL, recognizer=recognizer) as call:
        await call.link.do(*noise(0.5), CommitAudio("c"), RequestReply("r"))
        await _read(call)
        recognizer.may_answer.set()
        error = await call.link.until(ev.SoftError)
        assert (error.code, error.event_id) == ("engine_busy", "r")
        await call.link.do(SayText("hello"), RequestReply("r2"))
        await call.link.until(ev.ReplyDone)


async def test_a_reply_that_was_asked_for_comes_behind_the_turns_that_follow() -> None:
    recognizer, agent = _Slow(lambda samples: "a long one" if samples.size > 16_000 else ""), ScriptedAgent("Yes.")
    async with session(agent, settings=MANUAL, recognizer=recognizer) as call:
        await call.link.do(*noise(1.2), CommitAudio("c1"), RequestReply("r1"), *noise(0.3), CommitAudio("c2"))
        await _read(call)
        recognizer.may_answer.set()
        await call.link.until(ev.ReplyDone)
        assert len(call.link.of(ev.ReplyStarted)) == 1
    assert [turn.text for turn in agent.turns] == ["a long one"]


async def test_one_reply_can_be_asked_for_at_a_time() -> None:
    recognizer = _Slow()
    async with session(settings=MANUAL, recognizer=recognizer) as call:
        await call.link.do(*noise(0.5), CommitAudio("c1"), RequestReply("r1"), *noise(0.5), CommitAudio("c2"), RequestReply("r2"))
        error = await call.link.until(ev.SoftError)
        assert (error.code, error.event_id) == ("conversation_already_has_active_response", "r2")
        recognizer.may_answer.set()
        await call.link.until(ev.ReplyDone)
        assert len(call.link.of(ev.ReplyStarted)) == 1


async def test_words_are_told_in_the_order_in_which_they_were_said() -> None:
    class _ShortFirst(_Slow):
        async def recognize(self, samples: Samples, urgency: Any = None) -> Any:
            if samples.size > 16_000:
                await self.may_answer.wait()
            return await SettableRecognizer.recognize(self, samples)

    recognizer = _ShortFirst(lambda samples: "first" if samples.size > 16_000 else "second")
    agent = ScriptedAgent("Yes.")
    async with session(agent, settings=MANUAL, recognizer=recognizer) as call:
        await call.link.do(*noise(1.2), CommitAudio("c1"), *noise(0.3), CommitAudio("c2"), RequestReply("r"))
        await _read(call)
        recognizer.may_answer.set()
        await call.link.until(ev.ReplyDone)
        assert [ready.text for ready in call.link.of(ev.TranscriptReady)] == ["first", "second"]
    assert [said.text for said in agent.turns[0].history] == ["first"]
    assert agent.turns[0].text == "second"


async def test_what_was_asked_for_can_be_cancelled_before_its_words_are_there() -> None:
    recognizer = _Slow()
    async with session(settings=MANUAL, recognizer=recognizer) as call:
        await call.link.do(*noise(0.5), CommitAudio("c"), RequestReply("r", metadata={"k": "v"}), Interrupt("x"))
        done = await call.link.until(ev.ReplyDone)
        assert done.status is ev.ReplyStatus.CANCELLED
        assert call.link.of(ev.ReplyStarted)[0].metadata == {"k": "v"}
        recognizer.may_answer.set()
        await call.link.until(ev.TranscriptReady)
        await call.link.do(Interrupt("y"))
        assert (await call.link.until(ev.SoftError)).code == "response_cancel_not_active"
        assert len(call.link.of(ev.ReplyStarted)) == 1
        await call.link.do(SayText("hello"), RequestReply("r2"))
        assert (await call.link.until(ev.ReplyDone, 2)).status is ev.ReplyStatus.COMPLETED
        assert call.link.of(ev.ReplyStarted)[1].previous_item_id == call.link.of(ev.TextAdded)[0].item_id


async def test_who_asked_and_goes_on_speaking_is_answered_at_the_end() -> None:
    recognizer, agent = _Slow(), ScriptedAgent("Yes.")
    async with session(agent, settings=_ON_REQUEST, recognizer=recognizer) as call:
        await call.link.do(*noise(0.6), *quiet(0.3))
        await call.link.until(ev.InputCommitted)
        await call.link.do(RequestReply("r"), *noise(0.3))
        await call.link.until(ev.InputWithdrawn)
        await anyio.wait_all_tasks_blocked()  # the message that took it back has been obeyed
        checkpointed = call.conversation.checkpoint().turns.waiting_wish
        assert checkpointed is not None
        assert checkpointed.request.event_id == "r"
        recognizer.may_answer.set()
        await call.link.do(*quiet(0.5))
        await call.link.until(ev.ReplyDone)
        assert len(call.link.of(ev.ReplyStarted)) == 1


async def test_who_asked_and_clears_what_followed_is_answered_now() -> None:
    async with session(settings=_ON_REQUEST, recognizer=_Slow()) as call:
        await call.link.do(*noise(0.6), *quiet(0.3))
        await call.link.until(ev.InputCommitted)
        await call.link.do(RequestReply("r"), *noise(0.3), ClearAudio())
        await call.link.until(ev.ReplyDone)


async def test_a_turn_is_not_answered_by_itself_where_the_client_does_not_want_that() -> None:
    async with session(settings=_ON_REQUEST) as call:
        await call.link.do(*noise(0.6), *quiet(0.3))
        await call.link.until(ev.TranscriptReady)
        await _read(call)
        assert not call.link.of(ev.ReplyStarted)
        await call.link.do(RequestReply("r"))
        await call.link.until(ev.ReplyDone)


async def test_speech_over_a_reply_that_nobody_may_interrupt_is_answered_after_it() -> None:
    agent = ScriptedAgent(_LONG)
    async with session(agent, settings=_UNINTERRUPTIBLE, lead_ms=200) as call:
        await call.link.do(*noise(0.5), *quiet(0.4))
        await call.link.until(ev.ReplyAudio, 20)
        await call.link.do(*noise(0.8), *quiet(0.4))
        await call.link.until(ev.TranscriptReady, 2)
        await call.link.until(ev.ReplyDone, 2)
        assert [done.status for done in call.link.of(ev.ReplyDone)] == [ev.ReplyStatus.COMPLETED] * 2
        assert not call.link.of(ev.OutputHeld)
    assert agent.turns[1].text == "good morning"
    assert [said.text for said in agent.turns[1].history] == ["good morning", _LONG]


@pytest.mark.parametrize("is_over", [True, False])
async def test_so_is_speech_that_outlasts_it(is_over: bool) -> None:
    recognizer, agent = _Slow(), ScriptedAgent("Hm.")
    async with session(agent, settings=_UNINTERRUPTIBLE, recognizer=recognizer, lead_ms=40) as call:
        await call.link.do(SayText("hello"), RequestReply("r"))
        await call.link.until(ev.ReplyAudio, 2)
        await call.link.do(*noise(0.5), *(quiet(0.4) if is_over else []))
        await call.link.until(ev.ReplyDone)
        await _read(call)
        assert len(call.link.of(ev.ReplyStarted)) == 1
        await call.link.do(RequestReply("early")) if is_over else await call.link.do(*quiet(0.4))
        await _read(call)
        recognizer.may_answer.set()
        await call.link.until(ev.ReplyDone, 2)
        await _read(call)
        assert len(call.link.of(ev.ReplyStarted)) == 2  # the words and the request are one answer
    assert agent.turns[1].text == "good morning"


async def test_what_was_typed_while_the_agent_spoke_is_answered_with_its_words() -> None:
    agent = ScriptedAgent("Very well.")
    async with session(agent, lead_ms=40) as call:
        await call.link.do(SayText("first"), RequestReply("r1"))
        await call.link.until(ev.ReplyAudio, 3)
        await call.link.do(SayText("second"))
        await call.link.until(ev.ReplyDone)
        await call.link.do(RequestReply("r2"))
        await call.link.until(ev.ReplyDone, 2)
    assert agent.turns[1].text == "second"
    assert [said.text for said in agent.turns[1].history] == ["first", "Very well."]


async def test_who_cancels_before_anything_was_heard_is_answered_when_asking_again() -> None:
    may_speak = anyio.Event()

    async def answer(turn: Turn) -> AsyncIterator[str]:
        await may_speak.wait()
        yield f"You said {turn.text}."

    async with session(ScriptedAgent(answer)) as call:
        await call.link.do(SayText("hello"), RequestReply("r1"), Interrupt("x"), RequestReply("r2"))
        await call.link.until(ev.ReplyStarted, 2)
        may_speak.set()
        assert (await call.link.until(ev.ReplyDone, 2)).text == "You said hello."


@pytest.mark.parametrize("frames", [0, 20])
async def test_keys_interrupt_the_agent_and_are_answered(frames: int) -> None:  # a menu is chosen from while it is read out
    asked = anyio.Event()

    async def answer(turn: Turn) -> AsyncIterator[str]:
        asked.set()
        if not frames and turn.cause is TurnCause.TYPED:
            await anyio.sleep_forever()
        yield _LONG if turn.cause is TurnCause.TYPED else "Billing."

    agent = ScriptedAgent(answer)
    async with session(agent, lead_ms=40) as call:
        await call.link.do(SayText("menu"), RequestReply("r"))
        await asked.wait()
        await call.link.until(ev.ReplyAudio, frames) if frames else None
        await call.link.do(Dtmf("2"), Dtmf("#"))
        done = await call.link.until(ev.ReplyDone, 2)
        assert call.link.of(ev.ReplyDone)[0].status is ev.ReplyStatus.INTERRUPTED
        assert done.text == "Billing."
    assert (agent.turns[1].text, agent.turns[1].cause) == ("2", TurnCause.KEYS)


async def test_keys_beside_speech_are_part_of_its_turn() -> None:
    for words in ("and that one", ""):
        agent = ScriptedAgent("Yes.")
        async with session(agent, hears=words) as call:
            await call.link.do(*noise(0.5), Dtmf("2"), Dtmf("#"))
            await _read(call)
            assert not call.link.of(ev.ReplyStarted)
            await call.link.do(*quiet(0.4))
            await call.link.until(ev.ReplyDone)
            await _read(call)
        assert [turn.text for turn in agent.turns] == [words or "2"]


async def test_who_half_closes_in_mid_speech_is_answered() -> None:
    async with session(idle_s=60.0) as call:
        await call.link.do(*noise(0.5), Goodbye(after_reply=True))
        await call.link.until(ev.ReplyDone)
        await call.end()
