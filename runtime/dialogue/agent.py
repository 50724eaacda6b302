"""What an agent author writes: one class with a name, some tools and a `reply`.

An agent is shared by all calls of a process, so it holds no state of a call: that lives in `Turn.memory`, which travels with the
session when it moves to another process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias

from runtime.dialogue.session_settings import ClientTool

__all__ = ["Agent", "Json", "Role", "Said", "Tool", "ToolCaller", "ToolFailure", "Turn", "TurnCause"]

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None


class Role(StrEnum):
    CALLER = "caller"
    AGENT = "agent"
    SYSTEM = "system"
    """Neither said nor heard: the client told the agent."""


@dataclass(frozen=True, slots=True)
class Said:
    """One thing that was said, as far as it was heard."""

    role: Role
    text: str
    is_complete: bool = True
    """False: an agent's reply that the caller cut off; `text` is the part that was heard."""
    item_id: str = ""


class TurnCause(StrEnum):
    """Why the agent is asked to speak."""

    SPOKEN = "spoken"
    TYPED = "typed"
    """Typed, or asked for by the client without any new words."""
    KEYS = "keys"
    """Telephone keys; `Turn.text` holds them."""
    SILENCE = "silence"
    """The caller says nothing; `Turn.silences` counts how often in a row."""


def _nothing() -> None:
    """What a turn outside of a call does."""


def _nowhere(_: str) -> None:
    """Likewise."""


class ToolFailure(Exception):
    """A tool that could not do its work says so with this; the text may be spoken to the caller.

    Attributes:
        outcome_is_unknown: True where the tool may or may not have had its effect (it ran out of time).
    """

    def __init__(self, message: str, *, outcome_is_unknown: bool = False) -> None:
        super().__init__(message)
        self.outcome_is_unknown = outcome_is_unknown


@dataclass(frozen=True, slots=True)
class Tool:
    """Something an agent can do besides talk.

    Attributes:
        name: 1-64 characters of `[a-z0-9_]`.
        description: for people and for language models.
        parameters: JSON schema of the arguments object.
        run: receives the arguments object and an idempotency key that is the same for every attempt at the same effect;
            returns a JSON value, raises `ToolFailure`.
        is_idempotent: whether running twice with the same key does no harm. If not, it is never run twice.
        deadline_s: how long `run` may take before it is cancelled and fails.
    """

    name: str
    description: str
    parameters: Mapping[str, Json]
    run: Callable[[Mapping[str, Json], str], Awaitable[Json]]
    is_idempotent: bool = False
    deadline_s: float = 10.0


class ToolCaller(Protocol):
    """Runs one of the agent's tools under the runtime's supervision: announced, recorded, timed, cancelled with its turn.

    Raises `ToolFailure` where the tool failed, ran out of time or is unknown.
    """

    async def __call__(self, name: str, arguments: Mapping[str, Json]) -> Json: ...


@dataclass(frozen=True, slots=True)
class Turn:
    """The caller has finished a turn; the agent is asked to answer it.

    Attributes:
        text: what the caller said, as recognised. Empty where nothing could be understood.
        history: what was said before this turn, oldest first.
        memory: the agent's own notes on this call, kept between turns and across moves. JSON values only: what would come back
            from JSON as something else (a tuple, a set, NaN) is refused with a TypeError.
        call_tool: runs one of the agent's tools, or has the client run one of its own.
        client_tools: what the client declared that it can do.
        metadata: facts about the caller that came with the call.
        instructions: the session's instructions, where the client sent some.
        cause: why the agent is asked to speak.
        silences: how often in a row the caller was asked and said nothing; 0 in any other turn.
        end_call: the call ends when this reply has been heard; where the caller interrupts it, it goes on.
        transfer: the call is handed to the named target when this reply has been sent.
    """

    text: str
    history: Sequence[Said]
    memory: MutableMapping[str, Json]
    call_tool: ToolCaller
    metadata: Mapping[str, str] = field(default_factory=dict)
    instructions: str = ""
    cause: TurnCause = TurnCause.SPOKEN
    silences: int = 0
    client_tools: Sequence[ClientTool] = ()
    end_call: Callable[[], None] = _nothing
    transfer: Callable[[str], None] = _nowhere


class Agent(Protocol):
    """One kind of conversation partner."""

    @property
    def name(self) -> str:
        """What callers ask for (`model` on the Realtime wire). 1-64 characters of `[a-z0-9-]`."""
        ...

    @property
    def tools(self) -> Sequence[Tool]: ...

    def reply(self, turn: Turn) -> AsyncIterator[str]:
        """Streams the answer as pieces of text, in order, to be joined as they are.

        Speech starts at the first complete sentence or clause, so an early first sentence is a fast answer. The iterator is
        closed early when the caller interrupts. An exception that escapes is answered with a spoken apology; the call goes on.
        """
        ...
