"""The driver of one session: its tasks and its end. It holds no rules: the turn taker and the pure tables do.

Three tasks and whatever the turn taker starts share one task group: the reader takes what the caller does, the writer sends what
waits, the watch ends the session when a limit is reached.

A session may come from another process (`restore`, `run`, then `go_on`) and go to another one (`hand_over`, then `move_out`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, assert_never

import anyio
from anyio.abc import TaskGroup

from runtime.conversation.act_gate import ActGate
from runtime.conversation.intent_memory import IntentMemory
from runtime.conversation.message_boundary import MessageBoundary
from runtime.conversation.outbox import Outbox, OutboxFull
from runtime.conversation.ports import CallLink, CallObserver, CallParts, ConversationLimits, IntentStore, LinkClosed, Message
from runtime.conversation.resumption import KeptMessage, checkpoint_of, resume
from runtime.conversation.telephone_keys import TelephoneKeys
from runtime.conversation.turns import TurnTaker
from runtime.conversation.writer import Writer
from runtime.dialogue.agent import Agent
from runtime.dialogue.agent_events import (
    AgentEvent,
    DtmfReceived,
    Echoed,
    InputCleared,
    ReplyAudio,
    SessionClosed,
    SessionConfigured,
    SoftError,
)
from runtime.dialogue.caller_events import (
    AppendAudio,
    CallerEvent,
    ClearAudio,
    CommitAudio,
    Configure,
    DeleteItem,
    Dtmf,
    Echo,
    EndOfInput,
    Goodbye,
    Interrupt,
    Invalid,
    ReportHeard,
    RequestReply,
    SayText,
    ToolOutput,
)
from runtime.dialogue.checkpoint import Checkpoint
from runtime.dialogue.checkpoint_check import BadCheckpoint, check_checkpoint
from runtime.dialogue.session_settings import SessionSettings
from runtime.engines.ports import Engines
from runtime.primitives.clock import NS_PER_MS, NS_PER_S, Clock
from runtime.primitives.reasons import EndReason

__all__ = ["Conversation", "NotSettled"]

_GOODBYE_S: Final = 2.0
_TOOLS_S: Final = 3.0
"""How long a hand-over waits for tools that run: one that is cut off may or may not have had its effect."""
_SILENT_ENDS: Final = frozenset({EndReason.CONNECTION_LOST, EndReason.SLOW_CALLER})
"""Nobody is there to read a goodbye."""


class NotSettled(Exception):
    """No checkpoint can be taken at this moment."""


class Conversation:
    """One session with one caller. `run` returns why it ended; `stop` ends it from outside."""

    def __init__(
        self,
        session_id: str,
        settings: SessionSettings,
        agent: Agent,
        engines: Engines,
        limits: ConversationLimits,
        clock: Clock,
        observer: CallObserver,
        intents: IntentStore | None = None,
        epoch: int = 1,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._observer = observer
        self._outbox = Outbox(limits.outbox_events, limits.outbox_audio_frames, limits.outbox_weight)
        self._writer = Writer(self._outbox, limits.slow_caller_s, self._settled, self._standing, self.stop, observer.stale_sent)
        self._gate = ActGate()
        parts = CallParts(session_id, epoch, agent, engines, limits, clock, observer, self, intents or IntentMemory(), self._gate)
        self._turns = TurnTaker(parts, settings)
        self._keys = TelephoneKeys(self.start, self._turns.take_keys)
        self._parts = parts
        self._applied = 0
        self._boundary = MessageBoundary()
        self._restored: Checkpoint | None = None
        self._frames_per_message = 1.0
        self._started = anyio.Event()
        self._reason: EndReason | None = None
        self._has_moved_out = False
        self._scope = anyio.CancelScope()
        self._group: TaskGroup | None = None
        self._opened_ns = self._last_message_ns = clock.now_ns()

    @property
    def waiting_events(self) -> int:
        """Gauge: events that wait for the caller to read."""
        return self._outbox.waiting

    def stop(self, reason: EndReason) -> None:
        """Ends the session now. The first reason stays; later ones are ignored.

        The end is told before anything is waited for, so that the place is free whatever an agent's clean-up does.
        """
        if self._reason is None and not self._has_moved_out:
            self._reason = reason
            self._observer.ended(reason)
            self._writer.end(at_once=reason in _SILENT_ENDS)
            self._scope.cancel()

    def checkpoint(self) -> Checkpoint:
        """All of the conversation between two of the caller's messages. Raises NotSettled while one is obeyed."""
        if self._boundary.is_within:
            raise NotSettled
        return self._captured()

    def _captured(self) -> Checkpoint:
        now_ns = self._clock.now_ns()
        ages_ms = ((now_ns - self._opened_ns) // NS_PER_MS, (now_ns - self._last_message_ns) // NS_PER_MS)
        return checkpoint_of(self._parts, self._turns, self._applied, self._outbox.contents, ages_ms, self._keys.pending)

    def _standing(self) -> int | None:
        """As the writer asks for: where the checkpoint would be quiet too, what it has applied."""
        is_quiet = self._turns.is_quiet and not self._outbox.waiting and not self._keys.pending
        return self._applied if is_quiet and not self._boundary.is_within else None

    async def _settled(self, keep: Callable[[Checkpoint, bool], None]) -> None:
        def take() -> None:
            checkpoint = self._captured()
            keep(checkpoint, self._turns.is_quiet and not checkpoint.waiting and not checkpoint.keys)

        await self._boundary.look(take)

    async def hand_over(self, number: int) -> None:
        """The session is about to go on elsewhere: keeps it in answer to `number`, and decides nothing more until `stay`. The
        link holds back what its caller says meanwhile.

        What a reply has decided to say is said on. Tools that run are waited for, in bounded time.
        """
        self._gate.shut()
        await self._gate.rest(_TOOLS_S)
        self._writer.hand_over(number)

    def stay(self) -> None:
        """It does not go: all goes on as if nothing had been."""
        self._writer.stay()
        self._gate.open()

    def move_out(self) -> None:
        """It goes on elsewhere: `run` returns None without a word."""
        if self._reason is None and not self._has_moved_out:
            self._has_moved_out = True
            self._observer.moved_out()
            self._writer.end(at_once=True)
            self._scope.cancel()

    async def restore(self, checkpoint: Checkpoint, audio: Sequence[KeptMessage]) -> None:
        """Before `run`, which then greets nobody: goes on from a checkpoint, and says and does nothing before `go_on`: until then
        it may be given up again, and another process serves.

        `audio`: the caller's messages with audio from ordinal `audio_from` to `applied`, in order. Raises MissingAudio, and
        BadCheckpoint where the checkpoint contradicts itself or is another session's; then nothing has begun.
        """
        if checkpoint.session_id != self._parts.session_id:
            raise BadCheckpoint("it is of another session")
        check_checkpoint(checkpoint)
        now_ns = self._clock.now_ns()
        self._applied = checkpoint.applied
        self._opened_ns = now_ns - checkpoint.age_ms * NS_PER_MS
        self._last_message_ns = now_ns - checkpoint.idle_ms * NS_PER_MS
        self._turns.configure(checkpoint.settings)
        await resume(self._turns, checkpoint, audio, now_ns)
        self._gate.shut()
        self._outbox.refill([waiting.event for waiting in checkpoint.waiting])
        self._restored = checkpoint
        self._writer.stand_by()
        self._turns.speaker.stand_by()
        self._started.set()

    async def wait_until_audible(self) -> None:
        """After `restore` and `run`: returns when the reply that runs, if any, has audio to go on with."""
        await self._turns.speaker.wait_until_audible()

    def go_on(self, following: Sequence[Message], told: int, silent_ms: int) -> None:
        """After `restore` and `run`. The caller was sent `told` messages since the checkpoint, the last of them `silent_ms` ago.

        `following`: the messages that were to be sent first.
        """
        assert self._restored is not None, "goes on from what was restored"
        if not self._observer.started():
            self.stop(EndReason.NEVER_SPOKE)
            return
        self._gate.open()
        told_audio = max(0, told - len(following))
        waiting = sum(isinstance(waiting.event, ReplyAudio) for waiting in self._restored.waiting)
        frames = max(0, round(told_audio * self._frames_per_message) - waiting)
        self._turns.speaker.catch_up(frames, silent_ms)
        self._writer.go_on(following[told:], told_audio)

    async def run(self, link: CallLink, greeting: AgentEvent | None = None) -> EndReason | None:
        """Serves the caller until the session ends; the link is the caller's to close. Runs once.

        `greeting` None: begun elsewhere. The answer None: it goes on elsewhere.
        """
        self._frames_per_message = link.frames_per_message
        if greeting is not None:
            self.emit(greeting)
        try:
            with self._scope:
                async with anyio.create_task_group() as group:
                    self._group = group
                    group.start_soon(self._writer.run, link)
                    group.start_soon(self._watch)
                    if self._restored is not None:
                        self._turns.go_on()
                        self._keys.go_on(self._restored.keys)
                    try:
                        await self._read(link)
                    except anyio.get_cancelled_exc_class():
                        # A task of ours that fails cancels its group, and so the reader. Otherwise, and unless we have decided
                        # ourselves, it is the transport that ends the handler of a link that is gone: gRPC does, maybe before a
                        # read could tell.
                        has_failed = group.cancel_scope.cancel_called
                        if not self._has_moved_out:
                            self.stop(EndReason.HANDLER_ERROR if has_failed else EndReason.CONNECTION_LOST)
                        raise
        finally:
            # A fault of ours on its way up; a no-op where the end was decided.
            if not self._has_moved_out:
                self.stop(EndReason.HANDLER_ERROR)
                self._tell_keeper(link)
        if self._has_moved_out:
            return None
        assert self._reason is not None, "stop() has set it"
        if self._writer.is_usable and self._reason not in _SILENT_ENDS:
            await self._say_goodbye(link, self._reason)
        return self._reason

    def _tell_keeper(self, link: CallLink) -> None:
        """Nobody is to go on with a session that has ended, however its connection ends now."""
        if link.keeper is not None and self._reason is not None and self._reason is not EndReason.CONNECTION_LOST:
            link.keeper.over(self._reason)

    def emit(self, event: AgentEvent) -> None:
        """Raises OutboxFull."""
        self._outbox.put(event)

    async def emit_audio(self, event: ReplyAudio) -> None:
        await self._outbox.put_audio(event)

    def fence(self, generation: int) -> int:
        self._writer.fence(generation)
        return self._outbox.fence(generation)

    def hold(self, generation: int) -> None:
        self._outbox.hold(generation)

    def release(self) -> None:
        self._outbox.release()

    def end(self, reason: EndReason) -> None:
        """The session ends when all that waits for the caller has been sent."""
        self.start(lambda: self._end_when_taken(reason))

    async def _end_when_taken(self, reason: EndReason) -> None:
        await self._outbox.wait_until_taken()
        self.stop(reason)

    def start(self, task: Callable[[], Awaitable[None]]) -> None:
        """Runs a task that lives at most as long as the session."""
        assert self._group is not None, "tasks start while run() is running"
        self._group.start_soon(self._guard, task)

    async def _guard(self, task: Callable[[], Awaitable[None]]) -> None:
        try:
            await task()
        except* OutboxFull:
            self.stop(EndReason.SLOW_CALLER)

    async def _say_goodbye(self, link: CallLink, reason: EndReason) -> None:
        with anyio.move_on_after(_GOODBYE_S, shield=True):
            try:
                await link.send(link.encode(SessionClosed(reason)))
            except LinkClosed:
                return

    async def _read(self, link: CallLink) -> None:
        while self._reason is None:
            try:
                event = await link.receive()
            except LinkClosed as closed:
                self.stop(closed.reason)
                return
            self._last_message_ns = self._clock.now_ns()
            if not self._started.is_set() and not isinstance(event, Invalid):
                self._started.set()
                if not self._observer.started():
                    self.stop(EndReason.NEVER_SPOKE)
                    return
            self._boundary.enter()
            try:
                await self._obey(event, link.receiving)
            except OutboxFull:
                self.stop(EndReason.SLOW_CALLER)
            if link.applied == link.receiving:  # else the message means more than this
                self._applied = link.applied
                self._boundary.leave()

    async def _watch(self) -> None:
        while True:
            now_ns = self._clock.now_ns()
            deadline_ns, reason = self._next_deadline()
            if deadline_ns <= now_ns:
                self.stop(reason)
                return
            with anyio.move_on_after((deadline_ns - now_ns) / NS_PER_S):
                # Only the start can bring the deadline nearer; afterwards it moves away with every message.
                await (anyio.sleep_forever() if self._started.is_set() else self._started.wait())

    def _next_deadline(self) -> tuple[int, EndReason]:
        limits = self._limits
        if not self._started.is_set():
            return self._opened_ns + int(limits.first_message_s * NS_PER_S), EndReason.NEVER_SPOKE
        idle = self._last_message_ns + int(limits.idle_s * NS_PER_S), EndReason.IDLE_TIMEOUT
        longest = self._opened_ns + int(limits.maximum_s * NS_PER_S), EndReason.MAXIMUM_LENGTH
        return min(idle, longest)

    async def _obey(self, event: CallerEvent, ordinal: int) -> None:
        match event:
            case AppendAudio(pcm):
                await self._turns.hear(pcm, ordinal)
            case Configure(settings):
                self._turns.configure(settings)
                self.emit(SessionConfigured(settings))
            case CommitAudio(event_id):
                self._turns.commit(event_id)
            case EndOfInput():
                self._turns.end_input()
            case ClearAudio():
                self._turns.clear()
                self.emit(InputCleared())
            case SayText():
                self._turns.add_text(event)
            case DeleteItem():
                self._turns.items.delete(event)
            case RequestReply():
                self._turns.request_reply(event)
            case Echo(what):
                self.emit(Echoed(what))
            case Interrupt(event_id):
                self._turns.interrupt(event_id)
            case ReportHeard(generation, played_ms, item_id):
                self._turns.speaker.correct_heard(generation, item_id, played_ms)
            case ToolOutput(call_id, _, _, event_id):
                if not self._turns.speaker.client_tools.answer(event):
                    text = f"no tool waits under call_id {call_id[:64]!r}"
                    self.emit(SoftError("tool_not_waiting", text, event_id, "call_id"))
            case Dtmf(digit):
                self.emit(DtmfReceived(digit))
                self._keys.press(digit)
            case Invalid(code, message, event_id, parameter):
                self.emit(SoftError(code, message, event_id, parameter))
            case Goodbye(after_reply):
                if after_reply:
                    self._turns.end_input()
                    self._boundary.leave()  # nothing else is obeyed any more, and the rest has to be said
                    await self._turns.wait_until_quiet()
                    await self._outbox.wait_until_taken()
                    self._boundary.enter()
                self.stop(EndReason.CLOSED_BY_CALLER)
            case _:
                assert_never(event)
