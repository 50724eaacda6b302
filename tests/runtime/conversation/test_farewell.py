"""The end of a call that the agent ends: when its goodbye was heard, unless somebody has more to say."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import anyio
import pytest

from runtime.dialogue import agent_events as ev
from runtime.dialogue.agent import Role, Turn
from runtime.dialogue.caller_events import CallerEvent, DeleteItem, Dtmf, RequestReply, SayText
from runtime.dialogue.session_settings import ServerVad
from runtime.primitives.reasons import EndReason
from tests.support.call_parts import ScriptedAgent, noise, quiet
from tests.support.local_runtime import until
from tests.support.sessions import SETTINGS, Session, session

pytestmark = pytest.mark.anyio

_GOODBYE = "Goodbye, and thank you for calling."


def _parting() -> ScriptedAgent:
    async def answer(turn: Turn) -> AsyncIterator[str]:
        if not any(said.role is Role.AGENT for said in turn.history):
            turn.end_call()
        yield _GOODBYE

    return ScriptedAgent(answer)


async def _said(call: Session) -> None:
    """All of the goodbye has left; most of it is still to be heard."""
    await call.link.do(SayText("bye", "mine"), RequestReply("r"))
    await call.link.until(ev.ReplyDone)


async def test_nobody_is_hung_up_on_in_mid_sentence() -> None:
    async with session(_parting(), lead_ms=1_000) as call:
        await _said(call)
        await call.link.do(*noise(0.5))
        await call.link.until(ev.SpeechStarted)
        since_s = anyio.current_time()
        await until(lambda: anyio.current_time() > since_s + 1.2)  # the goodbye was heard by now
        assert call.reason is None
        await call.link.do(*quiet(0.4))
        assert (await call.link.until(ev.ReplyDone, 2)).status is ev.ReplyStatus.COMPLETED
        since_s = anyio.current_time()
        await until(lambda: anyio.current_time() > since_s + 1.2)
        assert call.reason is None  # there was more to say


async def test_a_cough_behind_the_goodbye_keeps_no_call() -> None:
    async with session(_parting(), hears="", lead_ms=1_000) as call:
        await _said(call)
        await call.link.do(*noise(0.3), *quiet(0.4))
        assert await call.end() is EndReason.CLOSED_BY_AGENT
        assert call.link.of(ev.TranscriptReady)


@pytest.mark.parametrize(
    "events",
    [[DeleteItem("item_0001"), DeleteItem("mine")], [SayText("note", "", Role.SYSTEM)]],
    ids=["what was said is deleted", "the client takes a note"],
)
async def test_what_nobody_said_keeps_no_call(events: Sequence[CallerEvent]) -> None:
    async with session(_parting(), lead_ms=1_000) as call:
        await _said(call)
        await call.link.do(*events)
        assert await call.end() is EndReason.CLOSED_BY_AGENT


@pytest.mark.parametrize("events", [[SayText("wait")], [Dtmf("1"), Dtmf("#")], [RequestReply("r2")]])
async def test_what_is_typed_or_keyed_or_asked_for_keeps_it(events: Sequence[CallerEvent]) -> None:
    async with session(_parting(), lead_ms=1_000) as call:
        await _said(call)
        await call.link.do(*events)
        since_s = anyio.current_time()
        await until(lambda: anyio.current_time() > since_s + 1.5)
        assert call.reason is None


async def test_words_keep_a_call_whose_client_asks_for_replies_itself() -> None:
    settings = replace(SETTINGS, turn_detection=ServerVad(silence_duration_ms=200, creates_response=False))
    async with session(_parting(), settings=settings, lead_ms=1_000) as call:
        await _said(call)
        await call.link.do(*noise(0.5), *quiet(0.4))
        await call.link.until(ev.TranscriptReady)
        since_s = anyio.current_time()
        await until(lambda: anyio.current_time() > since_s + 1.2)
        assert call.reason is None


async def test_speech_that_may_not_interrupt_the_goodbye_is_heard_out_too() -> None:
    settings = replace(SETTINGS, turn_detection=ServerVad(silence_duration_ms=200, interrupts_response=False))
    async with session(_parting(), settings=settings, lead_ms=100) as call:
        await call.link.do(SayText("bye"), RequestReply("r"))
        await call.link.until(ev.ReplyAudio, 5)
        await call.link.do(*noise(0.5))
        await call.link.until(ev.ReplyDone)
        since_s = anyio.current_time()
        await until(lambda: anyio.current_time() > since_s + 0.5)  # all of it was heard
        assert call.reason is None
