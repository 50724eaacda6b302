"""A whole session on synthetic engines with a scripted caller, for tests of the conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio

from runtime.conversation.conversation import Conversation
from runtime.conversation.ports import ConversationLimits
from runtime.dialogue import agent_events as ev
from runtime.dialogue.agent import Agent
from runtime.dialogue.session_settings import ServerVad, SessionSettings
from runtime.engines.ports import EndOfTurn, SpeechSynthesizer
from runtime.engines.synthetic import SettableRecognizer, synthetic_engines
from runtime.primitives.clock import MonotonicClock
from runtime.primitives.reasons import EndReason
from tests.support.call_parts import Observer, ScriptedAgent, ScriptedLink

__all__ = ["GREETING", "MANUAL", "SETTINGS", "Session", "session"]

SETTINGS = SessionSettings("scripted", turn_detection=ServerVad(silence_duration_ms=200, is_adaptive=False))
MANUAL = replace(SETTINGS, turn_detection=None)
GREETING = ev.SessionOpened("s", 1, "r", SETTINGS)


class Session:
    def __init__(
        self,
        agent: Agent,
        recognizer: SettableRecognizer,
        settings: SessionSettings,
        limits: ConversationLimits,
        end_of_turn: EndOfTurn | None = None,
        synthesizer: SpeechSynthesizer | None = None,
    ) -> None:
        self.link = ScriptedLink()
        self.observer = Observer()
        engines = replace(synthetic_engines(recognizer=recognizer), end_of_turn=end_of_turn)
        if synthesizer is not None:
            engines = replace(engines, synthesizer=synthesizer)
        self.conversation = Conversation("s", settings, agent, engines, limits, MonotonicClock(), self.observer)
        self.reason: EndReason | None = None
        self.ended = anyio.Event()

    async def run(self) -> None:
        self.reason = await self.conversation.run(self.link, GREETING)
        self.ended.set()

    async def end(self) -> EndReason | None:
        with anyio.fail_after(20):
            await self.ended.wait()
        return self.reason


@asynccontextmanager
async def session(
    agent: Agent | str = "Very well.",
    hears: str = "good morning",
    settings: SessionSettings = SETTINGS,
    limits: Mapping[str, Any] | None = None,
    recognizer: SettableRecognizer | None = None,
    end_of_turn: EndOfTurn | None = None,
    synthesizer: SpeechSynthesizer | None = None,
    **more_limits: Any,
) -> AsyncIterator[Session]:
    made = ScriptedAgent(agent) if isinstance(agent, str) else agent
    made_session = Session(
        made,
        recognizer or SettableRecognizer(hears),
        settings,
        replace(ConversationLimits(lead_ms=5000), **(limits or {}), **more_limits),
        end_of_turn,
        synthesizer,
    )
    async with anyio.create_task_group() as group:
        group.start_soon(made_session.run)
        try:
            yield made_session
        finally:
            made_session.conversation.stop(EndReason.CLOSED_BY_CALLER)
            with anyio.fail_after(20, shield=True):
                await made_session.ended.wait()
            made_session.link.close()
