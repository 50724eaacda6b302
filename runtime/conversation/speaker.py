"""The agent's side of a call: makes replies, holds and resumes their output, and ends them, once each."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Final

from runtime.conversation.client_tools import ClientTools
from runtime.conversation.ear import Onset
from runtime.conversation.farewell import Farewell
from runtime.conversation.mouth import Mouth
from runtime.conversation.mute_mouth import MuteMouth
from runtime.conversation.ports import CallParts
from runtime.conversation.reply import Answered, Asked, Reply
from runtime.conversation.tool_runner import ToolRunner
from runtime.conversation.turn_clock import TurnClock
from runtime.dialogue.agent import Json, Role, Turn, TurnCause
from runtime.dialogue.agent_events import (
    AgentEvent,
    Flush,
    OutputHeld,
    OutputResumed,
    ReplyAudio,
    ReplyDone,
    ReplyStarted,
    ReplyStatus,
    TransferRequested,
)
from runtime.dialogue.caller_events import RequestReply
from runtime.dialogue.checkpoint import ReplyState
from runtime.dialogue.context import Context
from runtime.dialogue.items import Items
from runtime.dialogue.notes import Notes, drop_unsound
from runtime.dialogue.session_settings import SessionSettings
from runtime.primitives.clock import NS_PER_MS

__all__ = ["REVERSIBLE_MS", "Speaker"]

REVERSIBLE_MS: Final = 300
"""Of a reply's audio. Who goes on speaking before so much of it was heard had not finished (requirement V3)."""


class Speaker:
    """Replies of one session, one at a time.

    Attributes:
        reply: the running one, or None.
        last: the one before, or None.
        farewell: the end of the call, once the agent has said goodbye.
        memory: the agent's notes on this call.
        client_tools: where the client's answers to tool calls go.
        key_stem: what the idempotency keys of its tools begin with: the session's name and its beginning, since names come again.
        on_first_audio, on_finished: told on the event loop; the first before the frame leaves, the second when all has left.
    """

    def __init__(
        self,
        parts: CallParts,
        context: Context,
        items: Items,
        farewell: Farewell,
        on_first_audio: Callable[[], None],
        on_finished: Callable[[], None],
    ) -> None:
        self.reply: Reply | None = None
        self.last: Reply | None = None
        self.farewell = farewell
        self.memory: dict[str, Json] = {}
        self.client_tools = ClientTools()
        self.key_stem = f"{parts.session_id}:{parts.clock.now_ns():x}"
        self._parts = parts
        self._context = context
        self._items = items
        self._on_first_audio = on_first_audio
        self._on_finished = on_finished
        self._generation = 0
        self._turn = 0

    def answer(
        self,
        settings: SessionSettings,
        clock: TurnClock,
        answered: Answered | None,
        wish: RequestReply,
        *,
        cause: TurnCause,
        has_words: bool = True,
        silences: int = 0,
    ) -> None:
        """Begins a reply to the newest words of the history, or to none."""
        self.farewell.take_back()
        self.check_notes()
        self._generation += 1
        self._turn += 1
        self.client_tools.begin()
        said = self._context.history
        has_words = has_words and bool(said) and said[-1].role is Role.CALLER
        asked = Asked(cause, silences, has_words, wish, copy.deepcopy(self.memory), self._context.newest)
        speaks = settings.speaks if wish.speaks is None else wish.speaks
        reply = self._make(settings, clock, answered, asked, self._generation, *self._items.add(), speaks=speaks)
        self.reply = reply
        self._parts.stage.emit(ReplyStarted(reply.generation, reply.item_id, reply.previous_item_id, speaks, wish.metadata))
        self.start(settings)

    def check_notes(self) -> None:
        """Notes that are no JSON would come back changed, or not at all, in another process: they are dropped, loudly."""
        for problem in drop_unsound(self.memory):
            self._parts.observer.agent_failed(TypeError(problem))

    def decline(self, request: RequestReply) -> None:
        """A reply that was asked for is not wanted any more: it begins and ends at once."""
        self._generation += 1
        item_id, previous = self._items.add()
        self._items.withdraw(item_id, previous)
        self._parts.stage.emit(ReplyStarted(self._generation, item_id, previous, request.speaks is not False, request.metadata))
        self._parts.stage.emit(ReplyDone(self._generation, ReplyStatus.CANCELLED, "", 0))

    def start(self, settings: SessionSettings) -> None:
        """Lets the reply run, or run on."""
        reply = self._running()
        asked, said = reply.asked, self._context.up_to(reply.asked.newest)
        has_words = asked.has_words and bool(said)
        turn = Turn(
            text=said[-1].text if has_words else "",
            history=said[:-1] if has_words else said,
            memory=Notes(self.memory),
            call_tool=reply.call_tool,
            metadata=settings.metadata,
            instructions=settings.instructions if asked.wish.instructions is None else asked.wish.instructions,
            cause=asked.cause,
            silences=asked.silences,
            client_tools=settings.tools,
            end_call=reply.end_call,
            transfer=reply.transfer,
        )

        async def finished() -> None:
            self._finish(reply)

        self._parts.stage.start(lambda: reply.run(self._parts.agent, turn, finished))

    @property
    def state(self) -> tuple[int, int]:
        """Generation and turn, for `restore`."""
        return self._generation, self._turn

    def restore(
        self,
        state: tuple[int, int],
        memory: Mapping[str, Json],
        settings: SessionSettings,
        reply: ReplyState | None,
        answered: Answered | None,
        last: ReplyState | None,
    ) -> None:
        """Goes on from another's state; the reply runs on with `start`."""
        self._generation, self._turn = state
        self.memory = dict(memory)
        self.last = None if last is None else self._made_again(settings, last, None)
        if reply is not None:
            self.reply = self._made_again(settings, reply, answered)
            if not reply.is_written:
                self.memory = copy.deepcopy(self.reply.asked.memory)  # it is asked again

    def _made_again(self, settings: SessionSettings, state: ReplyState, answered: Answered | None) -> Reply:
        newest = self._context.newest if state.said_before is None else state.said_before
        asked = Asked(state.cause, state.silences, state.has_words, state.wish, dict(state.memory), newest)
        now_ns = self._parts.clock.now_ns()
        clock = TurnClock(now_ns, now_ns, now_ns, now_ns)
        ids = (state.item_id, state.previous_item_id)
        reply = self._make(settings, clock, answered, asked, state.generation, *ids, speaks=state.speaks)
        reply.go_on(state)
        return reply

    def stand_by(self) -> None:
        """A reply that was restored makes audio and plays none until `catch_up`."""
        if self.reply is not None:
            self.reply.mouth.stand_by()

    async def wait_until_audible(self) -> None:
        """Returns when the reply that runs, if any, has audio to go on with, or nothing left to say."""
        if self.reply is not None:
            await self.reply.mouth.wait_until_audible()

    def catch_up(self, told_frames: int, silent_ms: int) -> None:
        """So many frames of the restored reply have reached the caller meanwhile, the last one so long ago."""
        if self.reply is not None:
            self.reply.mouth.catch_up(told_frames, silent_ms)

    def hold(self, onset: Onset) -> None:
        """No frame leaves from now on; nothing is thrown away. Where none has left yet, there is nothing to tell."""
        reply = self._running()
        self._parts.stage.hold(reply.generation)
        reply.mouth.hold()
        if not reply.is_speaking:
            return
        self._parts.observer.interruption_measured((self._parts.clock.now_ns() - onset.began_ns) / NS_PER_MS)
        self._parts.stage.emit(OutputHeld(reply.generation))

    def resume(self) -> None:
        """Play-out goes on exactly where it was held."""
        reply = self._running()
        if reply.is_speaking:
            self._parts.stage.emit(OutputResumed(reply.generation))
        self._parts.stage.release()
        reply.mouth.resume()

    def stop(self, status: ReplyStatus, announce: Callable[[], None]) -> Reply:
        """Ends the running reply now: its stream, tools and speech are cancelled and nothing of it leaves any more.

        `announce` is called between the flush and the reply's end: clients learn of the speech first and of its effect then.
        """
        reply = self._running()
        self.reply = None
        self.last = reply
        reply.scope.cancel()
        self._parts.observer.stale_dropped(self._parts.stage.fence(reply.generation))
        heard = reply.mouth.heard_text(reply.mouth.heard_ms())
        if status is not ReplyStatus.WITHDRAWN and (reply.is_speaking or heard):
            # What nobody can have heard a part of was not said.
            self._context.agent_said(heard, is_complete=False, item_id=reply.item_id, behind=reply.asked.newest)
        self._parts.stage.emit(Flush(reply.generation))
        announce()
        self._parts.stage.emit(ReplyDone(reply.generation, status, heard, reply.mouth.sent_ms))
        return reply

    def retract(self, announce: Callable[[], None]) -> Answered:
        """The turn was not over: its reply counts as never given, its words as not yet said. Answers what has to be joined."""
        reply = self.stop(ReplyStatus.WITHDRAWN, announce)
        answered = reply.answered
        assert answered is not None, "only a reply to speech is retracted"
        self._context.forget(answered.item_id)
        self._items.withdraw(reply.item_id, reply.previous_item_id)
        self._items.withdraw(answered.item_id, answered.previous_item_id)
        self.memory = answered.memory
        self._turn -= 1  # the same turn, so that its tools' keys are the same
        self.last = None
        return answered

    @property
    def is_reversible(self) -> bool:
        """Whether the running reply may still be taken back."""
        return self.reply is not None and self.reply.is_reversible and self.reply.mouth.heard_ms() < REVERSIBLE_MS

    def belongs_to_the_turn(self, onset: Onset) -> bool:
        """Whether speech that began then belongs to the turn that the running reply answers."""
        if self.reply is None or not self.reply.is_reversible:
            return False
        since_ms = (self._parts.clock.now_ns() - onset.began_ns) / NS_PER_MS
        return self.reply.mouth.heard_ms() - since_ms < REVERSIBLE_MS

    def correct_heard(self, generation: int, item_id: str, played_ms: int) -> None:
        """The caller reports how much of a reply was really played; 0: of the one with this item, else the newest.

        While it plays this is where play-out stands; afterwards it corrects the history. An older reply changes nothing any more.
        """
        reply = self.reply or self.last
        if self.last is not None and (generation == self.last.generation if generation else item_id == self.last.item_id):
            reply = self.last
        if reply is None or generation not in (0, reply.generation):
            return
        if reply is self.reply:
            reply.mouth.acknowledge(played_ms)
        else:
            heard_ms = min(max(0, played_ms), reply.mouth.sent_ms)
            is_complete = reply.is_sent and heard_ms >= reply.mouth.whole_ms
            self._context.correct_agent(reply.item_id, reply.heard_text(heard_ms), is_complete=is_complete)

    def _running(self) -> Reply:
        assert self.reply is not None, "the table asks for this only where a reply runs"
        return self.reply

    def _make(
        self,
        settings: SessionSettings,
        clock: TurnClock,
        answered: Answered | None,
        asked: Asked,
        generation: int,
        item_id: str,
        previous: str,
        *,
        speaks: bool,
    ) -> Reply:
        parts = self._parts

        def emit(event: AgentEvent) -> None:
            if self.reply is reply:  # what a dead reply still says ends here
                parts.stage.emit(event)

        async def play(pcm: bytes) -> None:
            if self.reply is reply and not reply.is_speaking:
                reply.is_speaking = True
                self._on_first_audio()
                parts.observer.turn_measured(clock.measured(parts.clock.now_ns()))
            await parts.stage.emit_audio(ReplyAudio(generation, pcm))

        def first_text() -> None:
            clock.first_text_ns = parts.clock.now_ns()

        rate_hz = settings.output_format.sample_rate_hz
        tools = ToolRunner(
            parts.agent.tools,
            self.client_tools,
            parts.session_id,
            parts.epoch,
            self.key_stem,
            self._turn,
            generation,
            parts.intents,
            parts.gate,
            emit,
            parts.observer.agent_failed,
        )
        synthesizer, lead_ms, on_late = parts.engines.synthesizer, parts.limits.lead_ms, parts.observer.audio_was_late
        mouth = Mouth(synthesizer, rate_hz, lead_ms, parts.clock, play, on_late) if speaks else MuteMouth()
        reply = Reply(generation, item_id, previous, answered, asked, mouth, tools, emit, parts.observer.agent_failed, first_text)
        return reply

    def _finish(self, reply: Reply) -> None:
        if self.reply is not reply:
            return  # it was stopped in the very step in which it ended
        self.reply = None
        self.last = reply
        self._parts.stage.release()  # a reply that failed while it was held has nothing more to say
        said, is_whole = reply.said
        self._context.agent_said(said, is_complete=is_whole, item_id=reply.item_id, behind=reply.asked.newest)
        status = ReplyStatus.FAILED if reply.has_failed else ReplyStatus.COMPLETED
        self._parts.stage.emit(ReplyDone(reply.generation, status, said, reply.mouth.sent_ms))
        if reply.transfers_to:
            self._parts.stage.emit(TransferRequested(reply.transfers_to))
        if reply.ends_call:
            self.hang_up()
        self._on_finished()

    def hang_up(self) -> None:
        """Ends the call when the last words have been heard; whoever speaks before that keeps the call."""
        assert self.last is not None, "a goodbye was said"
        self.farewell.say(self.last.mouth.left_s())
