"""What waits to be sent to the caller: bounded in number and size, in order, with a hold, and a fence for dead generations."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import anyio

from runtime.dialogue.agent_events import AgentEvent, ReplyAudio, ReplyText
from runtime.dialogue.event_weight import weight_of

__all__ = ["Outbox", "OutboxFull"]


class OutboxFull(Exception):
    """More events wait than the bound allows: the caller does not read."""


class Outbox:
    """Single consumer. Full policy: audio waits for room (the pacer is held back); any other event raises OutboxFull.

    Gauge: `waiting`.

    Args:
        event_limit: events that may wait; `audio_limit`: frames of replies among them.
        weight_limit: characters and bytes of what waits, frames apart. One event may be longer where nothing else waits.
    """

    def __init__(self, event_limit: int, audio_limit: int, weight_limit: int = 1 << 20) -> None:
        self._event_limit = event_limit
        self._weight_limit = weight_limit
        self._weight = 0
        self._audio_limit = audio_limit
        self._events: deque[AgentEvent] = deque()
        self._held: deque[AgentEvent] = deque()
        self._at_the_door: list[ReplyAudio] = []
        self._audio_waiting = 0
        self._fenced_upto = 0
        self._held_from: int | None = None
        self._is_closed = False
        self._arrived = anyio.Event()
        self._room = anyio.Event()
        self._taken = anyio.Event()
        self._is_taken = False
        self._is_nudged = False

    @property
    def waiting(self) -> int:
        return len(self._events) + len(self._held)

    def put(self, event: AgentEvent) -> None:
        """Raises OutboxFull. Ignored after `close`; what the fence stops never waits here."""
        if self._is_closed or self._is_dead(event):
            return
        weight = weight_of(event)
        if self.waiting >= self._event_limit or (self._weight and self._weight + weight > self._weight_limit):
            raise OutboxFull
        self._weight += weight
        self._events.append(event)
        self._arrived.set()

    async def put_audio(self, event: ReplyAudio) -> None:
        self._at_the_door.append(event)
        try:
            while self._audio_waiting >= self._audio_limit and not self._is_closed:
                self._room = anyio.Event()
                await self._room.wait()
        finally:
            self._at_the_door.remove(event)
        # Asked after the wait: room may come and the fence go up in one step of the event loop.
        if not self._is_closed and not self._is_dead(event):
            self._audio_waiting += 1
            (self._held if self._is_held(event) else self._events).append(event)
            self._arrived.set()

    def fence(self, generation: int) -> int:
        """Throws away text and audio of generations up to `generation`, now and from now on; answers how many events waited."""
        self._fenced_upto = max(self._fenced_upto, generation)
        waited = self.waiting
        self._held = deque(event for event in self._held if not self._is_dead(event))
        self._events = deque(event for event in self._events if not self._is_dead(event))
        self.release()
        self._count()
        self._room.set()
        return waited - self.waiting

    @property
    def contents(self) -> Sequence[AgentEvent]:
        """All that waits, what is held and what waits for room included, in the order in which it would leave."""
        return tuple(event for event in (*self._events, *self._held, *self._at_the_door) if not self._is_dead(event))

    def refill(self, events: Sequence[AgentEvent]) -> None:
        """Before anything else: what waited in another process waits here, beyond all bounds."""
        self._events.extend(events)
        self._count()
        if events:
            self._arrived.set()

    def hold(self, generation: int) -> None:
        """Audio of this reply, and of later ones, stays here until `release`; all else goes on, in its order."""
        if self._held_from is not None:
            return
        self._held_from = generation
        self._held = deque(event for event in self._events if self._is_held(event))
        self._events = deque(event for event in self._events if not self._is_held(event))

    def release(self) -> None:
        """What was held goes on, behind what was put meanwhile. Without a hold nothing changes."""
        self._held_from = None
        if self._held:
            self._events.extend(self._held)
            self._held.clear()
            self._arrived.set()

    def _is_held(self, event: AgentEvent) -> bool:
        return self._held_from is not None and isinstance(event, ReplyAudio) and event.generation >= self._held_from

    def _count(self) -> None:
        self._audio_waiting = sum(isinstance(event, ReplyAudio) for event in self._events)
        self._weight = sum(weight_of(event) for event in self._events if not isinstance(event, ReplyAudio))

    def _is_dead(self, event: AgentEvent) -> bool:
        return isinstance(event, (ReplyAudio, ReplyText)) and event.generation <= self._fenced_upto

    def close(self) -> None:
        """Takes nothing more; `get` answers what is left, then None."""
        self._is_closed = True
        self._arrived.set()
        self._room.set()

    @property
    def is_over(self) -> bool:
        """Closed and empty."""
        return self._is_closed and not self._events

    def nudge(self) -> None:
        """A `get` that waits, or the next one, answers None: the consumer has something else to do."""
        self._is_nudged = True
        self._arrived.set()

    async def get(self) -> AgentEvent | None:
        """The next event; None once closed and empty, and after a nudge."""
        while not self._events or self._is_nudged:
            if self._is_nudged:
                self._is_nudged = False
                return None
            if not self._is_taken:
                self._is_taken = True
                self._taken.set()
            if self._is_closed:
                return None
            self._arrived = anyio.Event()
            await self._arrived.wait()
        event = self._events.popleft()
        self._is_taken = False
        if isinstance(event, ReplyAudio):
            self._audio_waiting -= 1
            self._room.set()
        else:
            self._weight -= weight_of(event)
        return event

    async def wait_until_taken(self) -> None:
        """Returns when the consumer has come back for more and found nothing: all that was put has been sent."""
        while self._events or self._held or not self._is_taken:
            if self._taken.is_set():
                self._taken = anyio.Event()
            await self._taken.wait()
