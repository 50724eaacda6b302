"""One reply of the agent: its text streamed, its tools run, its speech sent; and what it answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

import anyio

from runtime.conversation.ear import Utterance
from runtime.conversation.mouth import Mouth
from runtime.conversation.mute_mouth import MuteMouth
from runtime.conversation.outbox import OutboxFull
from runtime.conversation.tool_runner import ToolRunner
from runtime.dialogue.agent import Agent, Json, Turn
from runtime.dialogue.agent_events import AgentEvent, ReplyText, SoftError
from runtime.engines.errors import EngineBusy
from runtime.engines.speech_text import SentenceCutter

__all__ = ["APOLOGY", "Answered", "Reply"]

APOLOGY: Final = "I am sorry, something went wrong on my side. Please say that again."


@dataclass(frozen=True, slots=True)
class Answered:
    """The spoken turn that a reply answers: what it takes to say that it was not over.

    Attributes:
        memory: the agent's notes as they were before.
    """

    utterance: Utterance
    item_id: str
    previous_item_id: str
    memory: dict[str, Json]


class Reply:
    """Runs once. After a cancel nothing more is emitted: the caller of `run` fences the generation first."""

    def __init__(
        self,
        generation: int,
        item_id: str,
        previous_item_id: str,
        answered: Answered | None,
        mouth: Mouth | MuteMouth,
        tools: ToolRunner,
        emit: Callable[[AgentEvent], None],
        on_fault: Callable[[Exception], None],
        on_first_text: Callable[[], None],
    ) -> None:
        self.generation = generation
        self.item_id = item_id
        self.previous_item_id = previous_item_id
        self.answered = answered
        self.mouth = mouth
        self.ends_call = False
        self.transfers_to = ""
        self.text = ""
        self.has_failed = False
        self.is_sent = False
        self.scope = anyio.CancelScope()
        self.tools = tools
        self._cutter = SentenceCutter()
        self._emit = emit
        self._on_fault = on_fault
        self._on_first_text = on_first_text

    @property
    def is_reversible(self) -> bool:
        """Whether it may still count as never given: it answers speech, was not read, and did nothing final."""
        was_read = bool(self.text) and isinstance(self.mouth, MuteMouth)
        return self.answered is not None and not was_read and not self.tools.had_effects

    def end_call(self) -> None:
        """As `Turn.end_call`."""
        self.ends_call = True

    def transfer(self, target: str) -> None:
        """As `Turn.transfer`."""
        self.transfers_to = target

    def heard_text(self, heard_ms: int) -> str:
        """What of the text was heard when `heard_ms` of the audio were played; all of it, as the agent wrote it, if all was."""
        return self.text if self.is_sent and heard_ms >= self.mouth.sent_ms else self.mouth.heard_text(heard_ms)

    async def run(self, agent: Agent, turn: Turn, finished: Callable[[], Awaitable[None]]) -> None:
        """Speaks the whole answer, then awaits `finished`; returns at once when `scope` is cancelled."""
        with self.scope:
            try:
                await self._speak(agent, turn)
            except* EngineBusy:
                # Nobody could say it. The call goes on: the caller is told that this reply ended, and may ask again.
                self.has_failed = True
                self._emit(SoftError("engine_busy", "the synthesiser has too much to do; please ask again"))
            self.is_sent = True
            await finished()

    async def _speak(self, agent: Agent, turn: Turn) -> None:
        with self.mouth:
            async with anyio.create_task_group() as group:
                group.start_soon(self.mouth.run)
                await self._stream(agent, turn)
                await self._say_the_rest()
                self.mouth.finish()

    async def call_tool(self, name: str, arguments: Mapping[str, Json]) -> Json:
        """The turn's way to its tools: what was said so far is spoken while the tool works."""
        await self._say_the_rest()
        return await self.tools(name, arguments)

    async def _stream(self, agent: Agent, turn: Turn) -> None:
        try:
            deltas = agent.reply(turn)
            try:
                async for delta in deltas:
                    await self._say(delta)
            finally:
                await _close(deltas)
        except OutboxFull:
            raise  # the caller does not read; no fault of the agent's
        except Exception as error:
            # The author's code: a fault becomes speech, never a dropped call.
            self._on_fault(error)
            self.has_failed = True
            await self._say((" " if self.text else "") + APOLOGY)

    async def _say_the_rest(self) -> None:
        for piece in self._cutter.flush():
            await self.mouth.say(piece)

    async def _say(self, delta: str) -> None:
        if not delta:
            return
        if not self.text:
            self._on_first_text()
        self.text += delta
        self._emit(ReplyText(self.generation, delta))
        for piece in self._cutter.feed(delta):
            await self.mouth.say(piece)


async def _close(deltas: AsyncIterator[str]) -> None:
    """Ends the author's generator now, so that its own clean-up runs inside the reply; time-limited, whatever it does."""
    if isinstance(deltas, AsyncGenerator):
        with anyio.move_on_after(1.0, shield=True):
            await deltas.aclose()
