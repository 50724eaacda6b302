"""What a conversation needs from outside: a link to its caller, limits, and somebody who hears what happens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from runtime.conversation.act_gate import ActGate
from runtime.dialogue.agent import Agent
from runtime.dialogue.agent_events import AgentEvent, ReplyAudio
from runtime.dialogue.caller_events import CallerEvent
from runtime.dialogue.checkpoint import Checkpoint
from runtime.dialogue.intents import Intent, IntentOutcome, IntentRecord
from runtime.dialogue.turn_table import Floor
from runtime.engines.ports import Engines
from runtime.primitives.clock import Clock
from runtime.primitives.reasons import EndReason

__all__ = [
    "CallLink",
    "CallObserver",
    "CallParts",
    "ConversationLimits",
    "IntentStore",
    "Interruption",
    "Keeper",
    "LinkClosed",
    "Message",
    "SessionIntents",
    "Stage",
    "TurnLatency",
]


class LinkClosed(Exception):
    """The link to the caller is gone; `reason` says how, as far as the link can know."""

    def __init__(self, reason: EndReason) -> None:
        self.reason = reason
        super().__init__(reason.value)


Message: TypeAlias = object
"""One message of a wire, as its link makes and sends them."""


class CallLink(Protocol):
    """One caller on one wire. One task receives, one sends.

    Attributes:
        keeper: where this session's checkpoints go, so that it outlives this process; None: nowhere.
        frames_per_message: how many 20 ms frames of a reply one message carries, on average.
        numbered: how many messages have their number, where the wire numbers them. Set by who knows of more that another
            process has told, or makes some of those again.
    """

    keeper: Keeper | None
    frames_per_message: float
    numbered: int

    @property
    def applied(self) -> int:
        """Ordinal of the caller's last message all of whose events were received."""
        ...

    @property
    def receiving(self) -> int:
        """Ordinal of the message that the last received event came from."""
        ...

    async def receive(self) -> CallerEvent:
        """The next event. Raises LinkClosed. Cancelling loses no event that a later call would not return."""
        ...

    def encode(self, event: AgentEvent) -> Sequence[Message]:
        """The messages that say this, in order: none where the wire has no word for it. Each event once, in order."""
        ...

    async def send(self, messages: Sequence[Message]) -> None:
        """Waits while the caller does not read. Raises LinkClosed. After a cancel the link may only be dropped."""
        ...


class Keeper(Protocol):
    """Keeps a session outside of this process: what it was told before this one died goes on in another."""

    def keep(self, checkpoint: Checkpoint, following: Sequence[Message], *, is_quiet: bool, answers: int) -> None:
        """The session as it is now, `following` having been said: those messages are sent next. Never waits.

        `answers`: the number of the hand-over that it answers; 0: none.
        """
        ...

    def over(self, reason: EndReason) -> None:
        """The session has ended: nobody is to go on with it. Never waits."""
        ...


@dataclass(frozen=True, slots=True)
class ConversationLimits:
    """Bounds of one session. Durations in seconds.

    Attributes:
        first_message_s: how long an attached caller may stay silent before the first valid message.
        idle_s: longest time without any message of the caller.
        maximum_s: longest session.
        slow_caller_s: longest time that one event may wait for the caller to read.
        lead_ms: how far the agent's audio is sent ahead of play-out. More rides out longer gaps; less can be taken back.
        outbox_events: events that may wait for the caller.
        outbox_audio_frames: 20 ms frames among them.
        outbox_weight: characters and bytes of them, frames apart: some of the longest messages that a client may send.
    """

    first_message_s: float = 10.0
    idle_s: float = 120.0
    maximum_s: float = 1200.0
    slow_caller_s: float = 10.0
    lead_ms: int = 200
    outbox_events: int = 1024
    outbox_audio_frames: int = 25
    outbox_weight: int = 1 << 20


@dataclass(frozen=True, slots=True)
class TurnLatency:
    """Milliseconds from the last voiced sample's arrival to the turn's end, the transcript, the first text, the first audio."""

    decided_ms: float
    transcript_ms: float
    first_text_ms: float
    first_audio_ms: float


class Interruption(StrEnum):
    """What came of speech over the agent."""

    STOPPED = "stopped"
    """The reply was stopped."""
    RESUMED = "resumed"
    """A backchannel or noise: it went on."""


class IntentStore(Protocol):
    """Where a tool's intents outlive the process that runs it. Older epochs of a session are refused with StaleEpoch."""

    async def begin(self, intent: Intent) -> IntentRecord:
        """Stores the intent where nobody has begun it (compare and set on key, tool and arguments), and answers what is known."""
        ...

    async def finish(self, intent: Intent, outcome: IntentOutcome) -> None: ...


class SessionIntents(IntentStore, Protocol):
    """An intent store of one process, which is told when a session is over."""

    def forget(self, session_id: str) -> None:
        """The session has ended: a later one of the same name shares nothing with it."""
        ...


class CallObserver(Protocol):
    """Hears what happens in one call; must not block or raise."""

    def started(self) -> bool:
        """The first valid message came. False where the place is no longer held: the session must not go on."""
        ...

    def ended(self, reason: EndReason) -> None:
        """The end is decided; called exactly once, before anything that may take time. Never where `moved_out` was."""
        ...

    def moved_out(self) -> None:
        """The session goes on in another process."""
        ...

    def speaking(self, is_speaking: bool) -> None:
        """Whether one side is speaking or a reply is being made."""
        ...

    def turn_measured(self, latency: TurnLatency) -> None: ...

    def interruption_measured(self, held_ms: float) -> None:
        """The caller spoke over the agent: from the first voiced sample's arrival to the hold, after which no frame left."""
        ...

    def interruption_settled(self, outcome: Interruption) -> None:
        """What came of it."""
        ...

    def commit_withdrawn(self, stage: Floor) -> None:
        """A turn was taken to be over and the caller went on; `stage`: how far its answer was."""
        ...

    def audio_was_late(self) -> None:
        """A frame left after its play-out time."""
        ...

    def stale_dropped(self, events: int) -> None:
        """Events of a dead generation were thrown away at the fence."""
        ...

    def stale_sent(self) -> None:
        """A frame of a dead generation was sent after its fence: must never happen, and is counted where it would."""
        ...

    def agent_failed(self, error: BaseException) -> None:
        """The agent's code or one of its tools raised something that it should not."""
        ...


class Stage(Protocol):
    """Where a turn taker acts: what it emits goes to the caller, what it starts lives as long as the session."""

    def emit(self, event: AgentEvent) -> None:
        """Raises OutboxFull."""
        ...

    async def emit_audio(self, event: ReplyAudio) -> None: ...

    def hold(self, generation: int) -> None:
        """No audio of this generation leaves until `release` or a fence."""
        ...

    def release(self) -> None: ...

    def end(self, reason: EndReason) -> None:
        """The session ends when all that was emitted has been sent."""
        ...

    def fence(self, generation: int) -> int:
        """Nothing of this generation leaves any more; answers how many waiting events were thrown away."""
        ...

    def start(self, task: Callable[[], Awaitable[None]]) -> None: ...


@dataclass(frozen=True, slots=True)
class CallParts:
    """What one call is made of, besides its state."""

    session_id: str
    epoch: int
    agent: Agent
    engines: Engines
    limits: ConversationLimits
    clock: Clock
    observer: CallObserver
    stage: Stage
    intents: IntentStore
    gate: ActGate
