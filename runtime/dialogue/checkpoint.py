"""A conversation as one value: what another process needs to go on with it. Times are ages, so that no clocks have to agree.

Audio is not in it. Frames (32 ms of the caller's audio at 16 kHz, counted from the session's first) name it instead, and whoever
holds the caller's messages hands the audio from `audio_from` on over again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from runtime.dialogue.agent import Said, TurnCause
from runtime.dialogue.caller_events import RequestReply, ToolOutput
from runtime.dialogue.session_settings import SessionSettings
from runtime.dialogue.turn_table import Floor
from runtime.dialogue.wishes import Wish

__all__ = [
    "CHECKPOINT_VERSION",
    "AnsweredState",
    "Checkpoint",
    "ClientToolsState",
    "CommitState",
    "EarState",
    "EndpointerState",
    "OnsetState",
    "PieceState",
    "ReplyState",
    "Span",
    "TurnsState",
    "UtteranceState",
    "WaitingEvent",
]

CHECKPOINT_VERSION: Final = 1
"""Grows when a field changes its meaning. New fields have defaults and unknown ones are ignored: a version either way is read."""

Span: TypeAlias = tuple[int, int]
"""First frame and one past the last."""


@dataclass(frozen=True, slots=True)
class UtteranceState:
    spans: tuple[Span, ...]
    media_time_ms: int
    voiced_until_ms: int
    voiced_age_ms: int


@dataclass(frozen=True, slots=True)
class OnsetState:
    """Speech that was not told to the client yet."""

    media_time_ms: int
    frame: int
    age_ms: int


@dataclass(frozen=True, slots=True)
class EndpointerState:
    frame: int
    row: int
    is_speech: bool
    is_paused: bool
    last_voiced: int
    voiced: int
    ended_at: int
    factor: float
    beliefs: tuple[float, ...]
    pauses: tuple[float, float, int, float]


@dataclass(frozen=True, slots=True)
class EarState:
    """`first_frame` to `frame` are kept; `rest_samples` of the next one are there. `earlier`: what is joined in front."""

    first_frame: int
    frame: int
    rest_samples: int
    belief: float
    voiced_age_ms: int
    earlier: tuple[Span, ...]
    endpointer: EndpointerState


@dataclass(frozen=True, slots=True)
class CommitState:
    """A turn that is over and has no words yet."""

    utterance: UtteranceState
    item_id: str
    previous_item_id: str
    decided_age_ms: int
    wish: RequestReply | None
    due: Wish | None = None
    """What `wish` is part of; None where there is none, or in older checkpoints."""


@dataclass(frozen=True, slots=True)
class AnsweredState:
    """What it takes to say that the turn was not over. `memory`: the agent's notes before it."""

    utterance: UtteranceState
    item_id: str
    previous_item_id: str
    memory: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PieceState:
    """A sentence of a reply. `frames`: how many of 20 ms it is; 0: it was not synthesised yet."""

    text: str
    audio_ms: int
    frames: int


@dataclass(frozen=True, slots=True)
class ReplyState:
    """A reply that runs.

    Attributes:
        text: what the agent has written; `is_written`: all of it. `rest`: what of it is no piece yet.
        sent_frames, heard_ms: how far its audio is.
        memory: the agent's notes as they were when it was asked.
        tools_told: how many tools were announced, and of how many the outcome.
        had_effects: a tool was begun that cannot be taken back.
        is_sent: it is over, and all of it was sent.
        said_before: how many entries of the history had been there when it began; None: all.
    """

    generation: int
    item_id: str
    previous_item_id: str
    text: str
    is_written: bool
    pieces: tuple[PieceState, ...]
    rest: str
    is_first_piece: bool
    sent_frames: int
    heard_ms: int
    speaks: bool
    cause: TurnCause
    silences: int
    has_words: bool
    wish: RequestReply
    memory: Mapping[str, Any]
    tools_told: tuple[int, int]
    had_effects: bool
    has_failed: bool
    ends_call: bool
    transfers_to: str
    answered: AnsweredState | None
    is_sent: bool = False
    said_before: int | None = None


@dataclass(frozen=True, slots=True)
class ClientToolsState:
    """Of the running reply: calls that the client was asked for, and what it answered to which."""

    asked: tuple[str, ...]
    answered: tuple[ToolOutput, ...]


@dataclass(frozen=True, slots=True)
class TurnsState:
    floor: Floor
    history: tuple[Said, ...]
    memory: Mapping[str, Any]
    items: tuple[int, str, str]
    generation: int
    turn: int
    ear: EarState
    commits: tuple[CommitState, ...]
    reply: ReplyState | None
    last_reply: ReplyState | None
    onset: OnsetState | None
    held_turn: UtteranceState | None
    silent_caller: tuple[int, int]
    hangs_up: bool = False
    """The agent has said its goodbye; the call ends when it was heard."""
    client_tools: ClientToolsState = field(default_factory=lambda: ClientToolsState((), ()))
    key_stem: str = ""
    """What the idempotency keys of its tools begin with; empty: the session's name."""
    waiting_wish: Wish | None = None
    """A reply that is due and cannot begin yet."""
    partial: tuple[str, str] = ("", "")
    """The item and the words that were told last before its turn was over."""


@dataclass(frozen=True, slots=True)
class WaitingEvent:
    """An agent event with its class's name, by which it is read again."""

    kind: str
    event: Any  # Any: an AgentEvent; where it is read, a JSON object first


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One session between two inputs.

    Attributes:
        applied: ordinal of the caller's last message whose effects are in here.
        audio_from: ordinal of the first message whose audio is still needed, at most `applied` + 1; `skip_samples` of that
            audio, at 16 kHz, lie before `base_frame`.
        age_ms: since the session began; `idle_ms`: since the caller's last message.
    """

    version: int
    session_id: str
    epoch: int
    applied: int
    audio_from: int
    skip_samples: int
    base_frame: int
    settings: SessionSettings
    turns: TurnsState
    age_ms: int
    idle_ms: int
    keys: str = ""
    """Telephone keys that are no entry yet."""
    waiting: tuple[WaitingEvent, ...] = ()
    """What was decided and not sent yet, in order; a frame of a reply counts as one of its `sent_frames`."""
