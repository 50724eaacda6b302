"""Parts of calls for tests of the conversation: a scripted caller link, a watchful observer, agents that do as told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

import anyio
import numpy as np

from runtime.conversation.ports import Interruption, Keeper, LinkClosed, Message, TurnLatency
from runtime.dialogue.agent import Json, Tool, Turn
from runtime.dialogue.agent_events import AgentEvent
from runtime.dialogue.caller_events import AppendAudio, CallerEvent
from runtime.dialogue.turn_table import Floor
from runtime.primitives.reasons import EndReason

__all__ = ["Observer", "ScriptedAgent", "ScriptedLink", "noise", "quiet"]

E = TypeVar("E")
_RATE_HZ = 24_000


def noise(seconds: float) -> list[CallerEvent]:
    """Audio that the synthetic detector takes for speech, in 20 ms events at 24 kHz."""
    return _audio(seconds, 8_000)


def quiet(seconds: float) -> list[CallerEvent]:
    return _audio(seconds, 0)


def _audio(seconds: float, level: int) -> list[CallerEvent]:
    frame = np.where(np.arange(_RATE_HZ // 50) // 24 % 2, level, -level).astype("<i2").tobytes()
    return [AppendAudio(frame)] * round(seconds * 50)


class ScriptedLink:
    """A caller that does what the test tells it, when the test tells it, and keeps all that it is told."""

    def __init__(self) -> None:
        self._give, self._take = anyio.create_memory_object_stream[CallerEvent](10_000)
        self.keeper: Keeper | None = None
        self.frames_per_message = 1.0
        self.numbered = 0
        self.numbers: list[tuple[AgentEvent, int]] = []
        """Of what was encoded."""
        self.applied = 0
        self.told: list[AgentEvent] = []
        self.closed_with = EndReason.CONNECTION_LOST
        self.is_stalled = False
        self.stalled = anyio.Event()
        self.is_broken = False
        self.broke = anyio.Event()
        self._resumed = anyio.Event()
        self._news = anyio.Event()

    async def do(self, *events: CallerEvent) -> None:
        for event in events:
            await self._give.send(event)

    @property
    def waiting(self) -> int:
        """How much of what was done was not read yet."""
        return self._give.statistics().current_buffer_used

    def hang_up(self, reason: EndReason = EndReason.CONNECTION_LOST) -> None:
        self.closed_with = reason
        self._give.close()

    def close(self) -> None:
        self._give.close()
        self._take.close()

    def resume(self) -> None:
        """A stalled send, and those after it, go through."""
        self.is_stalled = False
        self._resumed.set()

    @property
    def receiving(self) -> int:
        return self.applied

    async def receive(self) -> CallerEvent:
        try:
            event = await self._take.receive()
        except anyio.EndOfStream:
            raise LinkClosed(self.closed_with) from None
        self.applied += 1
        return event

    def encode(self, event: AgentEvent) -> Sequence[Message]:
        self.numbered += 1
        self.numbers.append((event, self.numbered))
        return [event]

    async def send(self, messages: Sequence[Message]) -> None:
        if self.is_broken:
            self.broke.set()
            raise LinkClosed(EndReason.CONNECTION_LOST)
        if self.is_stalled:
            self.stalled.set()
            await self._resumed.wait()
        self.told.extend(cast(Sequence[AgentEvent], messages))
        self._news.set()

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.told if isinstance(event, kind)]

    async def until(self, kind: type[E], count: int = 1, within_s: float = 20.0) -> E:
        """Waits for the `count`-th event of a kind."""
        with anyio.fail_after(within_s):
            while len(self.of(kind)) < count:
                self._news = anyio.Event()
                await self._news.wait()
        return self.of(kind)[count - 1]


@dataclass
class Observer:
    """Keeps what a conversation reports."""

    starts: int = 0
    moves: int = 0
    ends: list[EndReason] = field(default_factory=list)
    latencies: list[TurnLatency] = field(default_factory=list)
    late: int = 0
    stale: int = 0
    stale_sends: int = 0
    held_ms: list[float] = field(default_factory=list)
    interruptions: list[Interruption] = field(default_factory=list)
    withdrawn: list[Floor] = field(default_factory=list)
    faults: list[BaseException] = field(default_factory=list)
    is_held: bool = True
    is_speaking: bool = False

    def started(self) -> bool:
        self.starts += 1
        return self.is_held

    def ended(self, reason: EndReason) -> None:
        self.ends.append(reason)

    def moved_out(self) -> None:
        self.moves += 1

    def speaking(self, is_speaking: bool) -> None:
        self.is_speaking = is_speaking

    def turn_measured(self, latency: TurnLatency) -> None:
        self.latencies.append(latency)

    def audio_was_late(self) -> None:
        self.late += 1

    def stale_dropped(self, events: int) -> None:
        self.stale += events

    def stale_sent(self) -> None:
        self.stale_sends += 1

    def interruption_measured(self, held_ms: float) -> None:
        self.held_ms.append(held_ms)

    def interruption_settled(self, outcome: Interruption) -> None:
        self.interruptions.append(outcome)

    def commit_withdrawn(self, stage: Floor) -> None:
        self.withdrawn.append(stage)

    def agent_failed(self, error: BaseException) -> None:
        self.faults.append(error)


class ScriptedAgent:
    """Answers with whatever the test's function yields; remembers the turns it was given."""

    name = "scripted"

    def __init__(self, answer: Callable[[Turn], AsyncIterator[str]] | str, tools: Sequence[Tool] = ()) -> None:
        self._answer = answer
        self.tools = tools
        self.turns: list[Turn] = []

    async def reply(self, turn: Turn) -> AsyncIterator[str]:
        self.turns.append(turn)
        if isinstance(self._answer, str):
            yield self._answer
            return
        async for piece in self._answer(turn):
            yield piece


def tool(name: str, run: Callable[[Mapping[str, Json], str], Awaitable[Json]], **fields: object) -> Tool:
    return Tool(name, "a tool of a test", {"type": "object"}, run, **fields)  # type: ignore[arg-type]  # test shorthand
