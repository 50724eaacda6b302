"""The async client holds calls through a balancer: turns, tools, interruptions, refusals, ends."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import numpy as np
import pytest
from numpy.typing import NDArray

from clients.call_events import (
    AgentAudio,
    AgentText,
    CallerSaid,
    CallEvent,
    CallStarted,
    Ended,
    Flushed,
    Problem,
    ReplyDone,
    ReplyStarted,
    ToolRequested,
)
from clients.refusals import CallFailed, CallRefused
from clients.voice_call import CallOptions, DeclaredTool, VoiceCall, open_call
from runtime.dialogue.agent import Turn
from runtime.primitives.reasons import EndReason
from tests.conformance.callers import speech
from tests.support.call_parts import ScriptedAgent
from tests.support.local_runtime import Enrolled, enrolled_runtime, until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def enrolled() -> AsyncIterator[Enrolled]:
    async with enrolled_runtime() as enrolled:
        yield enrolled


def _server(enrolled: Enrolled) -> str:
    return enrolled.service.url.removesuffix("/v1/realtime")


def _turn(rate_hz: int = 24_000) -> NDArray[np.int16]:
    return np.frombuffer(speech(0.5, 0.8), "<i2")[:: 24_000 // rate_hz].astype(np.int16)


async def _pour(call: VoiceCall, samples: NDArray[np.int16]) -> None:
    """All at once: what the pace of speech is, `say` knows."""
    for start in range(0, len(samples), call.rate_hz // 10):
        await call.send_audio(samples[start : start + call.rate_hz // 10])


async def _until(events: AsyncIterator[CallEvent], kind: type[CallEvent]) -> list[CallEvent]:
    told = []
    with anyio.fail_after(20):
        async for event in events:
            told.append(event)
            if isinstance(event, kind):
                return told
    raise AssertionError(f"the call ended before {kind.__name__}: {told[-5:]}")


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 24_000])
async def test_a_spoken_turn_at_every_rate(enrolled: Enrolled, rate_hz: int) -> None:  # requirement V4
    async with open_call(_server(enrolled), options=CallOptions(rate_hz=rate_hz)) as call:
        await _pour(call, _turn(rate_hz))
        told = await _until(call.events(), ReplyDone)
        assert isinstance(told[0], CallStarted)
        assert told[0].session_id == call.session_id
        assert CallerSaid("good morning", True) in told
        assert told[-1] == ReplyDone(1, "completed", "You said: good morning.")
        samples = np.concatenate([event.samples for event in told if isinstance(event, AgentAudio)])
        assert len(samples) == call.playback.waiting_ms * rate_hz // 1000
        assert np.abs(samples).max() > 1_000
    await enrolled.local.until_ended(EndReason.CLOSED_BY_CALLER)


async def test_saying_takes_as_long_as_it_lasts(enrolled: Enrolled) -> None:
    async with open_call(_server(enrolled)) as call:
        started = anyio.current_time()
        await call.say(_turn()[:12_000], silence_s=1.5)
        assert 1.9 < anyio.current_time() - started < 10
        assert CallerSaid("good morning", True) in await _until(call.events(), ReplyDone)


async def test_tools_of_this_side(enrolled: Enrolled) -> None:
    options = CallOptions(tools=[DeclaredTool("client_look")])
    async with open_call(_server(enrolled), options=options) as call:
        events = call.events()
        await call.type("ask the client")
        asked = (await _until(events, ToolRequested))[-1]
        assert isinstance(asked, ToolRequested)
        await call.answer_tool(asked.call_id, '{"free": 3}')
        assert (await _until(events, ReplyDone))[-1] == ReplyDone(1, "completed", "The client found {'free': 3}.")
        await call.type("ask the client")
        asked = (await _until(events, ToolRequested))[-1]
        assert isinstance(asked, ToolRequested)
        await call.answer_tool(asked.call_id, "no network", is_error=True)
        done = (await _until(events, ReplyDone))[-1]
        assert isinstance(done, ReplyDone)
        assert done.status == "failed"  # the agent of this test does not expect a failing tool


async def test_what_was_played_is_what_the_agent_believes_was_heard() -> None:  # requirement V2
    turns: list[Turn] = []

    async def answer(turn: Turn) -> AsyncIterator[str]:
        turns.append(turn)
        yield "This answer goes on for a good while, so that nobody has to wait for its end. " * 20

    async with enrolled_runtime(agent=ScriptedAgent(answer), lead_ms=5_000) as enrolled, open_call(_server(enrolled)) as call:
        events = call.events()
        await call.type("go on")
        while call.playback.heard[1] < 1_000:  # a loudspeaker that plays a second, whatever has been sent by then
            await _until(events, AgentAudio)
            call.playback.take(480)
        await _pour(call, np.frombuffer(speech(0.6, 1.2), "<i2").astype(np.int16))
        told = await _until(events, Flushed)
        assert call.playback.waiting_ms == 0
        await _until(events, ReplyStarted)
        assert not [event for event in told if isinstance(event, Problem)]
        said = turns[1].history[-1]
        assert not said.is_complete
        assert 5 <= len(said.text) <= 25, said.text


async def test_by_hand(enrolled: Enrolled) -> None:
    async with open_call(_server(enrolled), options=CallOptions(detects_turns=False)) as call:
        events = call.events()
        await _pour(call, _turn())
        await call.commit()
        told = await _until(events, CallerSaid)
        assert not [event for event in told if isinstance(event, ReplyStarted)]
        await call.respond()
        await _until(events, ReplyDone)
        await call.interrupt()
        problem = (await _until(events, Problem))[-1]
        assert isinstance(problem, Problem)
        assert problem.code == "response_cancel_not_active"


async def test_hanging_up_ends_the_events(enrolled: Enrolled) -> None:
    async with open_call(_server(enrolled)) as call:
        events = call.events()
        await call.type("hello")
        text = [event.delta for event in await _until(events, ReplyDone) if isinstance(event, AgentText)]
        assert "".join(text) == "You said: hello."
        await call.hang_up()
        rest = [event async for event in events]
        assert rest[-1] == Ended("closed_by_caller")
        with pytest.raises(CallFailed, match="over"):
            await call.type("too late")


async def test_a_refusal_says_why(enrolled: Enrolled) -> None:
    with pytest.raises(CallRefused, match="unknown_agent") as refused:
        async with open_call(_server(enrolled), agent="nobody"):
            pass
    assert (refused.value.status, refused.value.code) == (404, "unknown_agent")


@pytest.mark.parametrize(("server", "words"), [("ftp://x", "expected http"), ("127.0.0.1:1", "expected http")])
async def test_what_is_no_server_is_said(server: str, words: str) -> None:
    with pytest.raises(CallFailed, match=words):
        async with open_call(server):
            pass


async def test_a_server_that_is_not_there_is_said() -> None:
    with pytest.raises(CallFailed, match="cannot open a call at http"):
        async with open_call("http://127.0.0.1:9"):
            pass


async def test_a_lost_connection_is_a_failure() -> None:
    async with enrolled_runtime() as enrolled, open_call(_server(enrolled)) as call:
        events = call.events()
        await _until(events, CallStarted)
        enrolled.local.runtime.leave()
        with pytest.raises(CallFailed, match="1012"), anyio.fail_after(20):
            await _until(events, ReplyDone)
        await until(lambda: enrolled.local.ledger.active == 0)


def test_a_rate_that_nobody_speaks_is_refused() -> None:
    with pytest.raises(ValueError, match="rate_hz is 44100; allowed: 8000, 16000, 24000"):
        CallOptions(rate_hz=44_100)
