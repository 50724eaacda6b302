"""Our own placements at one runtime that its latest report does not contain yet.

A placement is counted from the moment of the decision, before any I/O, so that the next decision sees it. It leaves when a
report says that everything up to its number is settled (`admitted_upto`), or when its own answer brought a report that
contains it, whichever is first. Every removal is by number, so repeated or reordered news change nothing.
"""

from __future__ import annotations

__all__ = ["InFlight"]


class InFlight:
    """The open placements of one balancer life at one incarnation of one runtime. Numbers run 1, 2, 3 ..."""

    __slots__ = ("_next", "_open")

    def __init__(self) -> None:
        self._next = 1
        self._open: set[int] = set()

    def open(self) -> int:
        """Counts one more placement and gives its number."""
        number = self._next
        self._next += 1
        self._open.add(number)
        return number

    def settle(self, number: int) -> bool:
        """One placement is contained in what we know, or never took effect. False: it was settled before."""
        if number in self._open:
            self._open.discard(number)
            return True
        return False

    def settle_upto(self, number: int) -> int:
        """The runtime's report contains all placements up to `number`; returns how many that settled here."""
        done = [each for each in self._open if each <= number]
        self._open.difference_update(done)
        return len(done)

    @property
    def count(self) -> int:
        return len(self._open)

    @property
    def oldest_open(self) -> int:
        """All numbers below this are settled at the balancer; with nothing open, the next number."""
        return min(self._open, default=self._next)
