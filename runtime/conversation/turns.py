"""Whose turn it is and what follows from it: drives the turn table, and owns transcription and the running reply.

All changes happen on the event loop between two awaits, so a decision is visible to the next event.
"""

from __future__ import annotations

from typing import Final

import anyio

from runtime.conversation.client_tools import ClientTools
from runtime.conversation.ear import Ear, Onset, Utterance
from runtime.conversation.mouth import Mouth
from runtime.conversation.mute_mouth import MuteMouth
from runtime.conversation.ports import CallObserver, ConversationLimits, Stage
from runtime.conversation.reply import Reply
from runtime.conversation.segments import SHORTEST_SAMPLES, recognize
from runtime.conversation.tool_runner import ToolRunner
from runtime.conversation.transcription import Transcription
from runtime.conversation.turn_clock import TurnClock
from runtime.conversation.typed_items import TypedItems
from runtime.dialogue.agent import Agent, Json, Role, Turn
from runtime.dialogue.agent_events import (
    AgentEvent,
    Flush,
    InputCommitted,
    InputWithdrawn,
    ReplyAudio,
    ReplyDone,
    ReplyStarted,
    ReplyStatus,
    SoftError,
    SpeechStarted,
    SpeechStopped,
    TranscriptReady,
)
from runtime.dialogue.caller_events import RequestReply
from runtime.dialogue.context import Context
from runtime.dialogue.items import Items
from runtime.dialogue.session_settings import SessionSettings
from runtime.dialogue.turn_table import Action, Floor, Happening, next_turn
from runtime.engines.errors import EngineBusy
from runtime.engines.ports import Engines
from runtime.primitives.clock import Clock

__all__ = ["TurnTaker"]

_ONSET_MS: Final = 96.0
"""Voiced audio that counts as a beginning of speech while the agent is silent: three frames, so that a click does not."""
_BARGE_IN_MS: Final = 192.0
"""The same while the agent speaks: about the 200 ms after which speech is more than a cough."""
_SHORTEST_QUESTIONABLE_MS: Final = 1_000
"""Without words, anything shorter is a cough or a click that no agent should ask about."""


class TurnTaker:
    """The turns of one session. Methods other than `hear` and `wait_until_quiet` never wait.

    Attributes:
        items: what the client puts into the conversation and takes out of it.
        client_tools: where the client's answers to tool calls go.
    """

    def __init__(
        self,
        session_id: str,
        settings: SessionSettings,
        agent: Agent,
        engines: Engines,
        limits: ConversationLimits,
        clock: Clock,
        observer: CallObserver,
        stage: Stage,
    ) -> None:
        self._session_id = session_id
        self._settings = settings
        self._agent = agent
        self._engines = engines
        self._limits = limits
        self._clock = clock
        self._observer = observer
        self._stage = stage
        self._ear = Ear(engines.vad, settings, clock)
        self._context = Context()
        self._memory: dict[str, Json] = {}
        self._floor = Floor.LISTENING
        self._generation = 0
        self._reply: Reply | None = None
        self._last_reply: Reply | None = None
        self._transcription: Transcription | None = None
        self._items = Items()
        self.items = TypedItems(self._items, self._context, stage.emit)
        self.client_tools = ClientTools()
        self._wants_reply = False
        self._wish = RequestReply()
        self._became_quiet = anyio.Event()
        self.configure(settings)

    def configure(self, settings: SessionSettings) -> None:
        self._settings = settings
        self.client_tools.declared = {tool.name: tool for tool in settings.tools}
        self._ear.configure(settings)

    async def hear(self, pcm: bytes) -> None:
        """Takes more of the caller's audio."""
        vad = self._settings.turn_detection
        onset_ms = _BARGE_IN_MS if self._floor is Floor.SPEAKING else _ONSET_MS
        for heard in await self._ear.hear(pcm, onset_ms):
            if isinstance(heard, Onset):
                self._stage.emit(SpeechStarted(self._items.open(), heard.media_time_ms))
                if vad is None or vad.interrupts_response or self._reply is None:
                    self._happen(Happening.SPEECH)
            else:
                self._stage.emit(SpeechStopped(self._items.open_id, heard.media_time_ms, heard.voiced_until_ms))
                self._turn_over(heard)

    def commit(self, event_id: str) -> None:
        """The client says that what it appended is a turn."""
        utterance = self._ear.commit()
        if utterance is None or len(utterance.samples) < SHORTEST_SAMPLES:
            text = "nothing to commit; allowed: at least 100 ms of audio"
            self._stage.emit(SoftError("input_audio_buffer_commit_empty", text, event_id))
        else:
            self._turn_over(utterance)

    def end_input(self) -> None:
        """The caller will say nothing more: open speech is a turn now."""
        utterance = self._ear.commit()
        if utterance is not None:
            self._turn_over(utterance)

    def clear(self) -> None:
        """Forgets what was appended and not committed."""
        self._ear.clear()
        self._items.forget_open()
        if self._floor is Floor.HEARING:
            self._happen(Happening.NO_WORDS)

    def request_reply(self, wish: RequestReply) -> None:
        event_id = wish.event_id
        if self._floor is Floor.TRANSCRIBING and self._transcription is not None:
            self._wants_reply = True  # the committed turn is answered as soon as its words are there
            self._wish = wish
            return
        if self._happen(Happening.REQUEST) is Action.REFUSE:
            text = "a reply is running or the caller is speaking; cancel it or wait"
            self._stage.emit(SoftError("conversation_already_has_active_response", text, event_id))
            return
        now_ns = self._clock.now_ns()
        self._wish = wish
        self._answer(TurnClock(now_ns, now_ns, now_ns))

    async def wait_until_quiet(self) -> None:
        """Returns when nobody speaks and no reply is on its way."""
        while self._floor is not Floor.LISTENING:
            self._became_quiet = anyio.Event()
            await self._became_quiet.wait()

    def interrupt(self, event_id: str) -> None:
        if self._happen(Happening.INTERRUPT) is Action.NOTHING_TO_CANCEL:
            self._stage.emit(SoftError("response_cancel_not_active", "no reply is running", event_id))

    def correct_heard(self, generation: int, played_ms: int) -> None:
        """The caller reports how much of a reply was really played; 0: of the newest. An older one changes nothing any more, and
        out of range is clamped."""
        if self._last_reply is not None and generation in (0, self._last_reply.generation):
            mouth = self._last_reply.mouth
            self._context.correct_agent(mouth.heard_text(min(max(0, played_ms), mouth.sent_ms)))

    def _happen(self, happening: Happening) -> Action:
        """Steps the turn table and does what stops something; starting something is left to the one who asked."""
        self._floor, action = next_turn(self._floor, happening)
        if action is Action.WITHDRAW:
            self._withdraw()
        elif action is Action.BARGE_IN:
            self._stop_reply(ReplyStatus.INTERRUPTED)
        elif action is Action.CANCEL:
            self._stop_reply(ReplyStatus.CANCELLED)
        self._observer.speaking(self._floor is not Floor.LISTENING)
        if self._floor is Floor.LISTENING:
            self._became_quiet.set()
        return action

    def _turn_over(self, utterance: Utterance) -> None:
        item_id, previous = self._items.commit()
        self._stage.emit(InputCommitted(item_id, previous))
        vad = self._settings.turn_detection
        may_interrupt = vad is None or vad.interrupts_response or self._reply is None
        self._wants_reply = may_interrupt and vad is not None and vad.creates_response
        if may_interrupt:
            self._happen(Happening.SILENCE)
        clock = TurnClock(utterance.voiced_until_ns, self._clock.now_ns())
        transcription = Transcription(utterance, item_id, clock, anyio.CancelScope())
        self._transcription = transcription
        self._stage.start(lambda: self._transcribe(transcription))

    def _withdraw(self) -> None:
        early = self._transcription
        self._transcription = None
        if early is not None:
            early.scope.cancel()
            self._ear.take_back(early.utterance)
            self._stage.emit(InputWithdrawn(early.item_id))

    async def _transcribe(self, transcription: Transcription) -> None:
        with transcription.scope:
            try:
                text = await recognize(self._engines.recognizer, transcription.utterance.samples)
            except EngineBusy:
                self._transcription = None
                self._stage.emit(SoftError("engine_busy", "the recogniser has too much to do; please say that again"))
                self._happen(Happening.NO_WORDS)
                return
            self._transcription = None
            transcription.clock.transcript_ns = self._clock.now_ns()
            audio_ms = transcription.utterance.audio_ms
            self._stage.emit(TranscriptReady(transcription.item_id, text, audio_ms))
            if text:
                self._context.caller_said(text, transcription.item_id)
            if self._wants_reply and (text or audio_ms >= _SHORTEST_QUESTIONABLE_MS):
                if self._happen(Happening.WORDS) is Action.REPLY:
                    self._answer(transcription.clock, understood_nothing=not text)
            else:
                self._happen(Happening.NO_WORDS)

    def _answer(self, turn_clock: TurnClock, *, understood_nothing: bool = False) -> None:
        self._generation += 1
        wish, self._wish = self._wish, RequestReply()
        speaks = self._settings.speaks if wish.speaks is None else wish.speaks
        reply = self._make_reply(self._generation, turn_clock, speaks)
        said = self._context.history
        has_words = not understood_nothing and bool(said) and said[-1].role is Role.CALLER
        turn = Turn(
            text=said[-1].text if has_words else "",
            history=said[:-1] if has_words else said,
            memory=self._memory,
            call_tool=reply.call_tool,
            metadata=self._settings.metadata,
            instructions=self._settings.instructions if wish.instructions is None else wish.instructions,
            client_tools=self._settings.tools,
        )
        self._reply = reply
        started = ReplyStarted(reply.generation, reply.item_id, reply.previous_item_id, speaks, wish.metadata)
        self._stage.emit(started)

        async def finished() -> None:
            self._finish(reply)

        self._stage.start(lambda: reply.run(self._agent, turn, finished))

    def _make_reply(self, generation: int, turn_clock: TurnClock, speaks: bool) -> Reply:
        def emit(event: AgentEvent) -> None:
            if self._reply is reply:  # what a dead reply still says ends here
                self._stage.emit(event)

        async def play(pcm: bytes) -> None:
            if self._reply is reply and self._floor is Floor.THINKING:
                self._happen(Happening.FIRST_AUDIO)
                self._observer.turn_measured(turn_clock.measured(self._clock.now_ns()))
            await self._stage.emit_audio(ReplyAudio(generation, pcm))

        def first_text() -> None:
            turn_clock.first_text_ns = self._clock.now_ns()

        rate_hz, on_late = self._settings.output_format.sample_rate_hz, self._observer.audio_was_late
        item_id, previous = self._items.add()
        synthesizer, lead_ms = self._engines.synthesizer, self._limits.lead_ms
        mouth = Mouth(synthesizer, rate_hz, lead_ms, self._clock, play, on_late) if speaks else MuteMouth()
        reply = Reply(
            generation,
            item_id,
            previous,
            mouth,
            ToolRunner(self._agent.tools, self._session_id, generation, emit, self._observer.agent_failed, self.client_tools),
            emit,
            self._observer.agent_failed,
            first_text,
        )
        return reply

    def _finish(self, reply: Reply) -> None:
        self._reply = None
        self._last_reply = reply
        self._context.agent_said(reply.text, is_complete=True, item_id=reply.item_id)
        status = ReplyStatus.FAILED if reply.has_failed else ReplyStatus.COMPLETED
        self._stage.emit(ReplyDone(reply.generation, status, reply.text, reply.mouth.sent_ms))
        self._happen(Happening.FINISHED)

    def _stop_reply(self, status: ReplyStatus) -> None:
        reply = self._reply
        assert reply is not None, "the table stops a reply only where one runs"
        self._reply = None
        self._last_reply = reply
        reply.scope.cancel()
        self._observer.stale_dropped(self._stage.fence(reply.generation))
        heard = reply.mouth.heard_text(reply.mouth.heard_ms())
        self._context.agent_said(heard, is_complete=False, item_id=reply.item_id)
        self._stage.emit(Flush(reply.generation))
        self._stage.emit(ReplyDone(reply.generation, status, heard, reply.mouth.sent_ms))
