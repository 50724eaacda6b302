"""Calls of the Python client whose network goes away in the middle, and comes back or does not. (requirement C4)"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import numpy as np
import pytest

from clients.blocking_call import open_blocking_call
from clients.call_events import AgentAudio, CallerSaid, CallEvent, CallResumed, ReplyDone, SpeechStarted
from clients.refusals import CallFailed
from clients.returning_line import ReturningLine
from clients.voice_call import CallOptions, VoiceCall, Way, open_call
from runtime.dialogue.agent import Turn
from runtime.primitives.reasons import EndReason
from tests.conformance.callers import speech
from tests.support.cable import Cable
from tests.support.call_parts import ScriptedAgent
from tests.support.local_runtime import LocalRuntime, enrolled_runtime, local_runtime, until

pytestmark = pytest.mark.anyio


def _story() -> ScriptedAgent:
    async def answer(turn: Turn) -> AsyncIterator[str]:
        yield f"You said: {turn.text}. "
        yield "At each line of the switchboard somebody waited for an answer. "

    return ScriptedAgent(answer)


@asynccontextmanager
async def cabled(**settings: float) -> AsyncIterator[tuple[LocalRuntime, Cable]]:
    async with (
        local_runtime(_story(), **{"lead_ms": 200, **settings}) as local,
        Cable(local.runtime.http_address).plugged() as cable,
    ):
        yield local, cable


async def _until(events: AsyncIterator[CallEvent], kind: type[CallEvent]) -> list[CallEvent]:
    told: list[CallEvent] = []
    with anyio.fail_after(20):
        async for event in events:
            told.append(event)
            if isinstance(event, kind):
                return told
    raise AssertionError(f"the call ended before {kind.__name__}: {told[-5:]}")


async def _pour(call: VoiceCall, pcm: bytes) -> None:
    samples = np.frombuffer(pcm, "<i2").astype(np.int16)
    for start in range(0, len(samples), 2_400):
        await call.send_audio(samples[start : start + 2_400])


async def test_a_caller_s_network_goes_away_in_mid_sentence() -> None:
    pcm = speech(1.5, 1.0)
    async with cabled() as (local, cable), open_call(f"http://{cable.address}") as call:
        events = call.events()
        first = call.resume_token
        await _pour(call, pcm[:24_000])
        await _until(events, SpeechStarted)
        cable.cut()
        await _pour(call, pcm[24_000:])
        told = await _until(events, ReplyDone)
        assert sum(isinstance(event, CallResumed) for event in told) == 1
        assert [event for event in told if isinstance(event, CallerSaid) and event.is_final] == [CallerSaid("good morning", True)]
        assert call.resume_token not in ("", first)
        assert local.ledger.totals.started == local.ledger.active == 1
        cable.cut()  # and again
        await call.type("still there")
        done = (await _until(events, ReplyDone))[-1]
        assert isinstance(done, ReplyDone)
        assert done.text.startswith("You said: still there.")
    await local.until_ended(EndReason.CLOSED_BY_CALLER)


async def test_a_caller_s_network_goes_away_while_the_agent_speaks() -> None:
    async with cabled() as (_, cable), open_call(f"http://{cable.address}") as call:
        events = call.events()
        await call.type("hello")
        for _number in range(20):
            await _until(events, AgentAudio)
        cable.cut()
        told = await _until(events, ReplyDone)
        assert CallResumed() in told
        disturbed_ms = 20 * 20 + sum(20 for event in told if isinstance(event, AgentAudio))
        await call.type("hello")
        again = await _until(events, ReplyDone)
        assert disturbed_ms == sum(20 for event in again if isinstance(event, AgentAudio))
        assert disturbed_ms == call.playback.waiting_ms / 2


def _cut(call: VoiceCall) -> None:
    assert isinstance(call._line, ReturningLine)
    call._line.connection.transport.abort()


async def test_a_call_by_assignment_comes_back_and_one_through_the_relay_is_not_offered_to() -> None:
    async with enrolled_runtime(allow_direct="nowhere") as enrolled:
        server = enrolled.service.url.removesuffix("/v1/realtime")
        async with open_call(server) as call:
            events = call.events()
            await call.type("hello")
            await _until(events, ReplyDone)
            _cut(call)
            await call.type("hello again")
            assert CallResumed() in await _until(events, ReplyDone)
        async with open_call(server, way=Way.RELAY) as call:
            events = call.events()
            await call.type("hello")
            await _until(events, ReplyDone)
            assert call.resume_token == ""
            _cut(call)
            with pytest.raises(CallFailed, match="broke"):
                await _until(events, ReplyDone)


async def _talk(cable: Cable, harm: Callable[[], Awaitable[None]], options: CallOptions | None = None) -> None:
    """A call that comes to harm while the agent speaks, and listens on to the end of the reply."""
    async with open_call(f"http://{cable.address}", options=options) as call:
        events = call.events()
        await call.type("hello")
        await _until(events, AgentAudio)
        assert (call.resume_token != "") is (options is None)
        await harm()
        await _until(events, ReplyDone)


async def test_who_cannot_come_back_in_time_is_told() -> None:
    async with cabled(resume_grace_s=0.3) as (local, cable):

        async def unplug() -> None:
            cable.unplug()

        with pytest.raises(CallFailed, match=r"did not come back within 0\.3 s"):
            await _talk(cable, unplug)
        await local.until_ended(EndReason.CONNECTION_LOST)


async def test_who_finds_the_session_over_is_told() -> None:
    async with cabled() as (local, cable):

        async def end_while_away() -> None:
            cable.unplug()
            await until(lambda: local.parts.desk.away.total() == 1)
            local.parts.calls.end_all(EndReason.IDLE_TIMEOUT)
            await until(lambda: not local.parts.desk.sessions)
            cable.plug()

        with pytest.raises(CallFailed, match="session_over"):
            await _talk(cable, end_while_away)


async def test_a_call_that_does_not_want_to_comes_back_to_nothing() -> None:
    async with cabled() as (local, cable):

        async def cut() -> None:
            cable.cut()

        with pytest.raises(CallFailed, match="broke"):
            await _talk(cable, cut, CallOptions(comes_back=False))
        await local.until_ended(EndReason.CONNECTION_LOST)


async def test_a_blocking_call_comes_back_too() -> None:
    async with cabled() as (local, cable):

        def hold() -> list[str]:
            found = []
            with open_blocking_call(f"http://{cable.address}") as call:
                events = call.events()
                for text in ("one", "two"):
                    call.type(text)
                    for event in events:
                        if isinstance(event, ReplyDone):
                            found.append(event.text.partition(".")[0])
                            break
                    anyio.from_thread.run_sync(cable.cut)
            return found

        with anyio.fail_after(30):
            assert await anyio.to_thread.run_sync(hold) == ["You said: one", "You said: two"]
        assert local.ledger.totals.started == 1


async def test_who_only_listens_acknowledges_what_comes() -> None:
    """Else the server would keep everything, and count the client as slow."""
    async with cabled(resume_most_bytes=65_536, slow_caller_s=2.0, lead_ms=60_000) as (local, cable):
        async with open_call(f"http://{cable.address}") as call:
            events = call.events()
            await call.type("hello")
            told = await _until(events, ReplyDone)
            assert sum(event.samples.nbytes for event in told if isinstance(event, AgentAudio)) > 2 * 65_536
            assert CallResumed() not in told
        await local.until_ended(EndReason.CLOSED_BY_CALLER)
