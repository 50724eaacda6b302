"""The blocking client, in a thread that has no event loop."""

from __future__ import annotations

import anyio
import numpy as np
import pytest

from clients.blocking_call import open_blocking_call
from clients.call_events import CallerSaid, Ended, ReplyDone, ToolRequested
from clients.refusals import CallRefused
from clients.voice_call import CallOptions, DeclaredTool
from runtime.primitives.reasons import EndReason
from tests.conformance.callers import speech
from tests.support.local_runtime import enrolled_runtime

pytestmark = pytest.mark.anyio


def _talk(server: str) -> list[object]:
    told: list[object] = []
    with open_blocking_call(server, options=CallOptions(tools=[DeclaredTool("client_look")])) as call:
        call.say(np.frombuffer(speech(0.4, 0), "<i2").astype(np.int16), silence_s=1.5)
        for event in call.events():
            told.append(event)
            match event:
                case ReplyDone(1):
                    assert call.playback.take(480).any()
                    call.type("ask the client")
                case ToolRequested(call_id):
                    call.answer_tool(call_id, "7")
                case ReplyDone(2):
                    call.hang_up()
    return told


async def test_a_whole_call() -> None:
    async with enrolled_runtime() as enrolled:
        server = enrolled.service.url.removesuffix("/v1/realtime")
        with anyio.fail_after(60):
            told = await anyio.to_thread.run_sync(_talk, server)
        assert CallerSaid("good morning", True) in told
        assert [event.text for event in told if isinstance(event, ReplyDone)] == [
            "You said: good morning.",
            "The client found 7.",
        ]
        assert told[-1] == Ended("closed_by_caller")
        await enrolled.local.until_ended(EndReason.CLOSED_BY_CALLER)


async def test_a_refusal_is_raised_here() -> None:
    def refused(server: str) -> None:
        with pytest.raises(CallRefused, match="unknown_agent"), open_blocking_call(server, agent="nobody"):
            pass

    async with enrolled_runtime() as enrolled:
        await anyio.to_thread.run_sync(refused, enrolled.service.url.removesuffix("/v1/realtime"))
