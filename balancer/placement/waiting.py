"""Who waits for a place, in which order, and for how long still: bounded, without I/O.

Higher priority first, then the order of arrival. Where all places are taken, a newcomer of higher priority puts out the last one
of the lowest; anybody else is turned away. Callers with the same needs (their priority is one of them) are served strictly in
this order; one whose needs nobody can meet just now holds up nobody with other needs, unless eight kinds wait before those.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from balancer.routing.request import Priority

__all__ = ["QueuePlace", "Waiter", "WaitingQueue", "WaitingRule", "estimated_wait_s"]

_RANKS: Final = {Priority.HIGH: 0, Priority.NORMAL: 1, Priority.LOW: 2}
_HEADS: Final = 8


@dataclass(frozen=True, slots=True)
class WaitingRule:
    """Raises ValueError, with name, value and range."""

    places: int = 0
    """Callers who may wait; 0: nobody, who finds no place is refused at once."""
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        if self.places < 0:
            raise ValueError(f"waiting_places is {self.places}; allowed: at least 0")
        if not 0.0 < self.timeout_s < float("inf"):
            raise ValueError(f"waiting_timeout_s is {self.timeout_s}; allowed: above 0, finite")


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """Where a caller stands, or would stand: 1 is next."""

    place: int
    estimated_wait_s: float | None
    """None: nothing is known of how fast sessions end."""


@dataclass(frozen=True, slots=True, order=True)
class Waiter:
    rank: int
    number: int
    session_id: str = field(compare=False)
    priority: Priority = field(compare=False)
    needs: Hashable = field(compare=False)
    since_ns: int = field(compare=False)


class WaitingQueue:
    """At most `places` waiters. Joining and leaving are O(n) moves of references, a place is O(log n)."""

    def __init__(self, places: int) -> None:
        self.places = places
        self._waiters: list[Waiter] = []
        self._needs: Counter[Hashable] = Counter()
        self._next = 0

    def __len__(self) -> int:
        return len(self._waiters)

    def __contains__(self, waiter: Waiter) -> bool:
        place = bisect_left(self._waiters, waiter)
        return place < len(self._waiters) and self._waiters[place].number == waiter.number

    def waiters(self) -> tuple[Waiter, ...]:
        """In the order in which they are served."""
        return tuple(self._waiters)

    def join(self, session_id: str, priority: Priority, needs: Hashable, now_ns: int) -> tuple[Waiter | None, Waiter | None]:
        """The new waiter (None: it is full), and who was put out for it."""
        put_out = None
        if len(self._waiters) >= self.places:
            if not self._waiters or self._waiters[-1].rank <= _RANKS[priority]:
                return None, None
            put_out = self._waiters[-1]
            self.leave(put_out)
        waiter = Waiter(_RANKS[priority], self._next, session_id, priority, needs, now_ns)
        self._next += 1
        insort(self._waiters, waiter)
        self._needs[needs] += 1
        return waiter, put_out

    def leave(self, waiter: Waiter) -> bool:
        """False: it was not there (any more)."""
        if waiter not in self:
            return False
        del self._waiters[bisect_left(self._waiters, waiter)]
        self._needs[waiter.needs] -= 1
        if not self._needs[waiter.needs]:
            del self._needs[waiter.needs]
        return True

    def waits(self, needs: Hashable) -> bool:
        """Whether anybody waits with the same needs."""
        return needs in self._needs

    def place_of(self, waiter: Waiter) -> int:
        return bisect_left(self._waiters, waiter) + 1

    def place_for(self, priority: Priority) -> int:
        """Where a newcomer would stand if there were room."""
        rank = _RANKS[priority]
        return bisect_left(self._waiters, (rank + 1,), key=lambda each: (each.rank,)) + 1

    def heads(self, most: int = _HEADS) -> list[Waiter]:
        """The first of each kind of needs, in order: who may have a place when there is one. `most` bounds the kinds that are
        looked at: callers choose their needs."""
        found: dict[Hashable, Waiter] = {}
        for waiter in self._waiters:
            found.setdefault(waiter.needs, waiter)
            if len(found) >= min(most, len(self._needs)):
                break
        return list(found.values())


def estimated_wait_s(place: int, ends_per_s: float) -> float | None:
    """Until so many sessions have ended.

    >>> estimated_wait_s(3, 0.5), estimated_wait_s(3, 0.0)
    (6.0, None)
    """
    return place / ends_per_s if ends_per_s > 1e-6 else None
