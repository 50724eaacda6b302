"""One conversation on synthetic engines with a scripted caller."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from runtime.conversation.conversation import Conversation
from runtime.conversation.ports import ConversationLimits
from runtime.dialogue.agent import Agent
from runtime.dialogue.agent_events import SessionOpened
from runtime.dialogue.session_settings import ServerVad, SessionSettings
from runtime.engines.synthetic import SettableRecognizer, synthetic_engines
from runtime.primitives.clock import MonotonicClock
from runtime.primitives.reasons import EndReason
from tests.support.call_parts import Observer, ScriptedLink

__all__ = ["conversing"]

_SETTINGS = SessionSettings("scripted", turn_detection=ServerVad(silence_duration_ms=200))


@asynccontextmanager
async def conversing(agent: Agent, settings: SessionSettings = _SETTINGS) -> AsyncIterator[ScriptedLink]:
    """The caller's end; the session goes on until the block ends."""
    link = ScriptedLink()
    engines = synthetic_engines(recognizer=SettableRecognizer("good morning"))
    limits = ConversationLimits(lead_ms=5_000)
    conversation = Conversation("s", settings, agent, engines, limits, MonotonicClock(), Observer())
    ended = anyio.Event()

    async def run() -> None:
        await conversation.run(link, SessionOpened("s", 1, "r", settings))
        ended.set()

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        try:
            yield link
        finally:
            conversation.stop(EndReason.CLOSED_BY_CALLER)
            with anyio.fail_after(20, shield=True):
                await ended.wait()
            link.close()
