"""One reply of the agent: its text streamed, its tools run, its speech sent; and what it answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

import anyio

from runtime.conversation.author_faults import is_fault
from runtime.conversation.ear import Utterance
from runtime.conversation.mouth import Mouth
from runtime.conversation.mute_mouth import MuteMouth
from runtime.conversation.outbox import OutboxFull
from runtime.conversation.tool_runner import ToolRunner
from runtime.dialogue.agent import Agent, Json, Turn, TurnCause
from runtime.dialogue.agent_events import AgentEvent, ReplyText, SoftError
from runtime.dialogue.caller_events import RequestReply
from runtime.dialogue.checkpoint import AnsweredState, ReplyState
from runtime.dialogue.unicode_text import WholeText, whole
from runtime.engines.errors import EngineBusy
from runtime.engines.speech_text import SentenceCutter

__all__ = ["APOLOGY", "Answered", "Asked", "Reply"]

APOLOGY: Final = "I am sorry, something went wrong on my side. Please say that again."


@dataclass(frozen=True, slots=True)
class Asked:
    """Why and how the agent was asked. `memory`: its notes as they were then; `newest`: the number of what was said last."""

    cause: TurnCause
    silences: int
    has_words: bool
    wish: RequestReply
    memory: dict[str, Json]
    newest: int


class _SaysSomethingElse(Exception):
    """Asked again, the agent does not say what it said before."""


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
        asked: Asked,
        mouth: Mouth | MuteMouth,
        tools: ToolRunner,
        emit: Callable[[AgentEvent], None],
        on_fault: Callable[[BaseException], None],
        on_first_text: Callable[[], None],
    ) -> None:
        self.generation = generation
        self.item_id = item_id
        self.previous_item_id = previous_item_id
        self.answered = answered
        self.asked = asked
        self.mouth = mouth
        self.ends_call = False
        self.transfers_to = ""
        self.text = ""
        self.has_failed = False
        self.is_speaking = False
        self.is_written = False
        self.is_sent = False
        self._was_cut = False
        self._known = ""
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
        self.transfers_to = whole(target)

    def state(self, answered: AnsweredState | None, said_before: int) -> ReplyState:
        """What `go_on` goes on from. `said_before`: how many entries of the history had been there when it began."""
        pieces, frames, heard_ms = self.mouth.state
        rest, is_first = self._cutter.state
        return ReplyState(
            generation=self.generation,
            item_id=self.item_id,
            previous_item_id=self.previous_item_id,
            text=self.text,
            is_written=self.is_written,
            pieces=pieces,
            rest=rest,
            is_first_piece=is_first,
            sent_frames=frames,
            heard_ms=heard_ms,
            speaks=not isinstance(self.mouth, MuteMouth),
            cause=self.asked.cause,
            silences=self.asked.silences,
            has_words=self.asked.has_words,
            wish=self.asked.wish,
            memory=self.asked.memory,
            tools_told=self.tools.told,
            had_effects=self.tools.had_effects,
            has_failed=self.has_failed,
            ends_call=self.ends_call,
            transfers_to=self.transfers_to,
            answered=answered,
            is_sent=self.is_sent,
            said_before=said_before,
        )

    def go_on(self, state: ReplyState) -> None:
        """Before `run`: another process has begun this reply.

        An agent that had not written all is asked again, and what it says is compared with what it said: it goes on behind that,
        or where it says something else, ends with it. Its tools' outcomes are known, so none is run twice.
        """
        self.text, self.is_written, self.has_failed = state.text, state.is_written, state.has_failed
        self.is_sent = state.is_sent
        self.ends_call, self.transfers_to = state.ends_call, state.transfers_to
        self.is_speaking = state.sent_frames > 0
        self._known = "" if state.is_written else state.text
        self._cutter = SentenceCutter(state.rest, state.is_first_piece)
        self.mouth.go_on(state.pieces, state.sent_frames, state.heard_ms)
        self.tools.go_on(state.tools_told, had_effects=state.had_effects)

    def heard_text(self, heard_ms: int) -> str:
        """What of the text was heard when `heard_ms` of the audio were played; all of it, as the agent wrote it, if all was."""
        return self.text if self.is_sent and heard_ms >= self.mouth.whole_ms else self.mouth.heard_text(heard_ms)

    @property
    def said(self) -> tuple[str, bool]:
        """Of a reply that is over: what of it was said, and whether that is all."""
        return (self.text, True) if self.is_sent else (self.mouth.heard_text(self.mouth.sent_ms), False)

    async def run(self, agent: Agent, turn: Turn, finished: Callable[[], Awaitable[None]]) -> None:
        """Speaks the whole answer, then awaits `finished`; returns at once when `scope` is cancelled."""
        with self.scope:
            try:
                await self._speak(agent, turn)
            except* EngineBusy:
                # Nobody could say it. The call goes on: the caller is told that this reply ended, and may ask again.
                self.has_failed = self._was_cut = True
                self._emit(SoftError("engine_busy", "the synthesiser has too much to do; please ask again"))
            self.is_sent = not self._was_cut
            await finished()

    async def _speak(self, agent: Agent, turn: Turn) -> None:
        with self.mouth:
            async with anyio.create_task_group() as group:
                group.start_soon(self.mouth.run)
                await self.mouth.say_again()
                if not self.is_written:
                    await self._stream(agent, turn)
                    self._known = ""
                    await self._say_the_rest()
                    self.is_written = True
                self.mouth.finish()

    async def call_tool(self, name: str, arguments: Mapping[str, Json]) -> Json:
        """The turn's way to its tools: what was said so far is spoken while the tool works."""
        await self._say_the_rest()
        return await self.tools(name, arguments)

    async def _stream(self, agent: Agent, turn: Turn) -> None:
        text = WholeText()
        try:
            deltas = agent.reply(turn)
            try:
                async for delta in deltas:
                    await self._say(text.feed(delta))
                await self._say(text.flush())
            finally:
                await _close(deltas)
        except OutboxFull:
            raise  # the caller does not read; no fault of the agent's
        except _SaysSomethingElse:
            return  # what was begun is finished as it was; half of another answer would be worse
        except (Exception, BaseExceptionGroup, anyio.get_cancelled_exc_class()) as error:
            if not is_fault(error):
                raise
            # The author's code: a fault becomes speech, never a dropped call.
            self._on_fault(error)
            self.has_failed = True
            await self._say((" " if self.text else "") + APOLOGY)

    async def _say_the_rest(self) -> None:
        if self._known:
            return  # this was said before
        await self.mouth.say(*self._cutter.flush())

    async def _say(self, delta: str) -> None:
        if self._known:
            known = min(len(delta), len(self._known))
            if delta[:known] != self._known[:known]:
                raise _SaysSomethingElse
            delta, self._known = delta[known:], self._known[known:]
        if not delta:
            return
        await self.tools.may_go_on()
        if not self.text:
            self._on_first_text()
        self.text += delta
        self._emit(ReplyText(self.generation, delta))
        await self.mouth.say(*self._cutter.feed(delta))


async def _close(deltas: AsyncIterator[str]) -> None:
    """Ends the author's generator now, so that its own clean-up runs inside the reply; time-limited, whatever it does."""
    if isinstance(deltas, AsyncGenerator):
        with anyio.move_on_after(1.0, shield=True):
            await deltas.aclose()
