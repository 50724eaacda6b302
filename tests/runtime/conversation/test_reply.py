"""One reply: whatever the author's code does, it ends in words, and what counts as said is what was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import anyio
import pytest

from runtime.conversation.reply import APOLOGY
from runtime.dialogue import agent_events as ev
from runtime.dialogue.agent import Turn
from runtime.dialogue.caller_events import Interrupt, RequestReply, SayText
from runtime.engines.errors import EngineBusy
from runtime.engines.ports import Samples
from runtime.engines.synthetic import ToneSynthesizer
from tests.support.call_parts import ScriptedAgent
from tests.support.sessions import MANUAL, session

pytestmark = pytest.mark.anyio


async def _cancelled_inside(_: Turn) -> AsyncIterator[str]:
    yield "One moment. "
    inner = asyncio.get_running_loop().create_future()
    inner.cancel()
    yield await inner


async def _halves(_: Turn) -> AsyncIterator[str]:
    yield "Hello \ud83d"
    yield "\ude00."


async def _half(_: Turn) -> AsyncIterator[str]:
    yield "Hello \ud83d"


@pytest.mark.parametrize(
    ("answer", "text"),
    [(_cancelled_inside, f"One moment.  {APOLOGY}"), (_halves, "Hello \U0001f600."), (_half, "Hello \ufffd")],
)
async def test_whatever_an_agent_does_becomes_words(answer: Callable[[Turn], AsyncIterator[str]], text: str) -> None:
    async with session(ScriptedAgent(answer), settings=replace(MANUAL, speaks=False)) as call:
        await call.link.do(SayText("hello"), RequestReply())
        assert (await call.link.until(ev.ReplyDone)).text == text
        assert "".join(part.delta for part in call.link.of(ev.ReplyText)) == text
        await call.link.do(SayText("again"), RequestReply())
        await call.link.until(ev.ReplyDone, 2)
        assert call.reason is None


async def test_a_target_that_no_wire_can_carry_is_made_whole() -> None:
    async def answer(turn: Turn) -> AsyncIterator[str]:
        turn.transfer("billing \ud83d")
        yield "One moment."

    async with session(ScriptedAgent(answer)) as call:
        await call.link.do(RequestReply())
        assert (await call.link.until(ev.TransferRequested)).target == "billing \ufffd"


async def test_what_the_synthesiser_had_no_time_for_was_not_said() -> None:
    class _SoonBusy(ToneSynthesizer):
        async def synthesize(self, text: str, *, is_first: bool = False) -> Samples:
            if not is_first:
                raise EngineBusy("tts", 1)
            return await super().synthesize(text, is_first=is_first)

    agent = ScriptedAgent("First comes this. The second one costs 99 pounds. And a third.")
    async with session(agent, settings=MANUAL, synthesizer=_SoonBusy()) as call:
        await call.link.do(SayText("tell me"), RequestReply())
        done = await call.link.until(ev.ReplyDone)
        assert done.status is ev.ReplyStatus.FAILED
        assert "99" not in done.text
        await call.link.do(SayText("again"), RequestReply())
        await call.link.until(ev.ReplyDone, 2)
    said = agent.turns[1].history[1]
    assert (said.text, said.is_complete) == (done.text, False)


async def test_a_reply_that_is_stopped_is_no_fault_of_the_agent() -> None:
    async def answer(_: Turn) -> AsyncIterator[str]:
        yield "One moment. "
        await anyio.sleep_forever()

    async with session(ScriptedAgent(answer)) as call:
        await call.link.do(SayText("hello"), RequestReply())
        await call.link.until(ev.ReplyText)
        await call.link.do(Interrupt())
        await call.link.until(ev.ReplyDone)
        await anyio.wait_all_tasks_blocked()
        assert not call.observer.faults
