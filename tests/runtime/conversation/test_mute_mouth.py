"""A reply as text alone."""

from __future__ import annotations

import pytest

from runtime.dialogue.agent_events import Flush, ReplyAudio, ReplyDone, ReplyStarted, ReplyStatus, ReplyText
from runtime.dialogue.caller_events import RequestReply, SayText
from tests.support.call_parts import ScriptedAgent
from tests.support.conversations import conversing

pytestmark = pytest.mark.anyio


async def test_a_reply_that_is_not_spoken_is_text_alone() -> None:
    agent = ScriptedAgent("One thing. And another.")
    async with conversing(agent) as link:
        await link.do(SayText("well?"), RequestReply(speaks=False, metadata={"topic": "t"}))
        done = await link.until(ReplyDone)
        assert (done.status, done.text, done.audio_ms) == (ReplyStatus.COMPLETED, "One thing. And another.", 0)
        started = link.of(ReplyStarted)[0]
        assert (started.speaks, started.metadata) == (False, {"topic": "t"})
        assert "".join(text.delta for text in link.of(ReplyText)) == done.text
        assert not link.of(ReplyAudio)
        assert not link.of(Flush)
        await link.do(SayText("and aloud?"), RequestReply())
        await link.until(ReplyDone, 2)
        assert link.of(ReplyAudio), "the wish held for one reply"


async def test_what_holds_for_one_reply_reaches_the_agent_once() -> None:
    agent = ScriptedAgent("Yes.")
    async with conversing(agent) as link:
        await link.do(SayText("a"), RequestReply(instructions="Be brief."))
        await link.until(ReplyDone)
        await link.do(SayText("b"), RequestReply())
        await link.until(ReplyDone, 2)
        assert [turn.instructions for turn in agent.turns] == ["Be brief.", ""]
