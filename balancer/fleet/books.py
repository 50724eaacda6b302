"""The books: every live leg by its name, and totals that only grow.

    active = started + recovered + moved_in - ended - moved_out - runtime_lost

Legs come and go by identity, so an event that is repeated, late or about a leg that is not in the book changes nothing.
`recovered` are legs that were live before this balancer knew of them (its own restart), or that were given up as lost and came
back. A leg that vanished while nobody listened ends as `unreported`.

`unheard` are legs that began and ended while this balancer was not enrolled with their runtime (a fresh runtime takes callers
before it is enrolled; a stream breaks). Nobody named them, but the ledger's version counts every beginning and every end, so
their number is known exactly. They are part of no other total: legs in all = started + recovered + moved_in + unheard.

What the books cannot know: what a runtime did in the moment before it was killed and had not yet told.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar

from balancer.fleet.registration import Leg
from balancer.routing.affinity import Affinity

__all__ = ["BookTotals", "Books", "LegChange", "LiveLeg", "Recorded", "RuntimeBook"]

K = TypeVar("K")
V = TypeVar("V")
_REMEMBERED: Final = 10_000
UNREPORTED: Final = "unreported"


class LegChange(StrEnum):
    STARTED = "started"
    MOVED_IN = "moved_in"
    ENDED = "ended"
    MOVED_OUT = "moved_out"


class Recorded(StrEnum):
    APPLIED = "applied"
    DUPLICATE = "duplicate"
    """An event that is in the book already, or about a leg that is not."""
    GAP = "gap"
    """Events are missing before this one: only a new enrolment tells the whole truth again."""
    UNKNOWN = "unknown"
    """From a life of a runtime that has no book."""


@dataclass(frozen=True, slots=True)
class LiveLeg:
    session_id: str
    epoch: int
    runtime_id: str
    incarnation: int
    since_ns: int


@dataclass(slots=True)
class RuntimeBook:
    """The legs of one runtime life."""

    ledger_version: int
    live: dict[Leg, LiveLeg] = field(default_factory=dict)
    arrived: int = 0
    """Legs that this life has had in all, by name or `unheard`."""
    disagreement: int = 0
    """Live legs that the runtime's own snapshot has more than the book, at equal ledger versions; 0: they agree."""
    arrived_disagreement: int = 0
    """The same of the legs in all."""
    compared: int = 0


@dataclass(frozen=True, slots=True)
class _Past:
    """What is remembered of a life between two enrolments."""

    ledger_version: int = 0
    arrived: int = 0
    lost: int = 0
    """Its legs that were given up as lost and have not come back."""


@dataclass(slots=True)
class BookTotals:
    started: int = 0
    recovered: int = 0
    moved_in: int = 0
    moved_out: int = 0
    runtime_lost: int = 0
    unheard: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    duplicates: int = 0
    gaps: int = 0

    @property
    def implied_active(self) -> int:
        arrived = self.started + self.recovered + self.moved_in
        return arrived - sum(self.ended.values()) - self.moved_out - self.runtime_lost


class Books:
    """Pure: every method is one event and takes effect before it returns."""

    def __init__(self, affinity: Affinity | None = None) -> None:
        self.totals = BookTotals()
        self.affinity = Affinity() if affinity is None else affinity
        """Which runtime a session belongs to; it learns here when one is live and when it ended."""
        self._books: dict[tuple[str, int], RuntimeBook] = {}
        self._sessions: dict[str, list[LiveLeg]] = {}
        self._past: OrderedDict[tuple[str, int], _Past] = OrderedDict()
        self._lost: OrderedDict[tuple[str, int, str, int], None] = OrderedDict()
        self._last_epoch: OrderedDict[str, int] = OrderedDict()

    @property
    def active(self) -> int:
        return sum(len(book.live) for book in self._books.values())

    @property
    def is_balanced(self) -> bool:
        """The identities agree with the totals; and of each enrolled runtime life, live legs and legs in all agree with its own
        count wherever both are at the same version. Says nothing of lives that are over."""
        agree = not any(book.disagreement or book.arrived_disagreement for book in self._books.values())
        return agree and self.active == self.totals.implied_active

    def book(self, runtime_id: str, incarnation: int) -> RuntimeBook | None:
        return self._books.get((runtime_id, incarnation))

    def where(self, session_id: str) -> tuple[LiveLeg, ...]:
        """The live legs of a session: one, or none; two only while something is wrong."""
        return tuple(self._sessions.get(session_id, ()))

    def last_epoch(self, session_id: str) -> int:
        """The highest epoch seen or used of a session that is live or ended lately; 0: none."""
        return self._last_epoch.get(session_id, 0)

    def use_epoch(self, session_id: str, epoch: int) -> None:
        """A runtime was given this leg, and may keep or lose it without a word: its next one has a higher epoch, or that
        runtime would take it for an old one."""
        _remember(self._last_epoch, session_id, max(epoch, self.last_epoch(session_id)))

    def enroll(self, runtime_id: str, incarnation: int, live: Iterable[Leg], ledger_version: int, now_ns: int) -> None:
        """The whole truth of one life. Books of other lives of the runtime are not touched: `lose` them."""
        key = (runtime_id, incarnation)
        listed = set(live)
        past = self._past.get(key)
        known = past or _Past()
        book = self._books.get(key)
        if book is None:
            book = self._books[key] = RuntimeBook(known.ledger_version, arrived=known.arrived)
        gone = [leg for leg in book.live if leg not in listed]
        come = listed.difference(book.live)
        back = sum((*key, *leg) in self._lost for leg in come) if known.lost else 0
        # Every beginning and every end since the version that we know is one event; those that the list does not show are pairs.
        shown = len(gone) + len(come) - back + max(0, known.lost - back)
        unheard = max(0, ledger_version - book.ledger_version - shown) // 2
        self.totals.unheard += unheard
        book.arrived += len(come) - back + unheard
        for leg in gone:
            self._close(book, leg, now_ns)
            self.totals.ended[UNREPORTED] += 1
        for leg in sorted(come):
            # A life that we knew told us of every start but those that its broken stream swallowed.
            if past is not None and (*key, *leg) not in self._lost:
                self.totals.started += 1
            else:
                self.totals.recovered += 1
            self._open(book, key, leg, now_ns)
        book.ledger_version = ledger_version
        book.disagreement = book.arrived_disagreement = 0
        _remember(self._past, key, _Past())

    def record(
        self, runtime_id: str, incarnation: int, leg: Leg, change: LegChange, reason: str, ledger_version: int, now_ns: int
    ) -> Recorded:
        """One leg event. On GAP nothing is changed but the count of gaps."""
        key = (runtime_id, incarnation)
        book = self._books.get(key)
        if book is None:
            return Recorded.UNKNOWN
        if ledger_version <= book.ledger_version:
            self.totals.duplicates += 1
            return Recorded.DUPLICATE
        if ledger_version != book.ledger_version + 1:
            self.totals.gaps += 1
            return Recorded.GAP
        book.ledger_version = ledger_version
        arrives = change in (LegChange.STARTED, LegChange.MOVED_IN)
        if arrives == (leg in book.live):
            self.totals.duplicates += 1
            return Recorded.DUPLICATE
        match change:
            case LegChange.STARTED:
                self.totals.started += 1
                book.arrived += 1
                self._open(book, key, leg, now_ns)
            case LegChange.MOVED_IN:
                self.totals.moved_in += 1
                book.arrived += 1
                self._open(book, key, leg, now_ns)
            case LegChange.ENDED:
                self._close(book, leg, now_ns)
                self.totals.ended[reason or "unstated"] += 1
            case LegChange.MOVED_OUT:
                self._close(book, leg, now_ns)
                self.totals.moved_out += 1
        return Recorded.APPLIED

    def lose(self, runtime_id: str, incarnation: int, now_ns: int) -> tuple[LiveLeg, ...]:
        """The life is over without goodbye: its legs leave as `runtime_lost`. Again: nothing more."""
        book = self._books.pop((runtime_id, incarnation), None)
        if book is None:
            return ()
        lost = tuple(book.live.values())
        _remember(self._past, (runtime_id, incarnation), _Past(book.ledger_version, book.arrived, len(lost)))
        for leg in list(book.live):
            self._close(book, leg, now_ns)
            self.totals.runtime_lost += 1
            _remember(self._lost, (runtime_id, incarnation, *leg), None)
        return lost

    def compare(self, runtime_id: str, incarnation: int, ledger_version: int, active: int, arrived: int | None) -> None:
        """A snapshot's own counts against the book, at the same version only. `arrived`: legs in all; None: not said."""
        book = self._books.get((runtime_id, incarnation))
        if book is not None and book.ledger_version == ledger_version:
            book.disagreement = active - len(book.live)
            book.arrived_disagreement = 0 if arrived is None else arrived - book.arrived
            book.compared += 1

    def _open(self, book: RuntimeBook, key: tuple[str, int], leg: Leg, now_ns: int) -> None:
        made = LiveLeg(*leg, *key, now_ns)
        book.live[leg] = made
        self._sessions.setdefault(made.session_id, []).append(made)
        self.affinity.lives(made.session_id, made.runtime_id, now_ns)
        self.use_epoch(made.session_id, made.epoch)

    def _close(self, book: RuntimeBook, leg: Leg, now_ns: int) -> None:
        gone = book.live.pop(leg)
        self.affinity.ended(gone.session_id, gone.runtime_id, now_ns)
        legs = self._sessions[gone.session_id]
        legs.remove(gone)
        if not legs:
            del self._sessions[gone.session_id]


def _remember(memory: OrderedDict[K, V], key: K, value: V) -> None:
    """Bounded memory of things past: the least recently written leave."""
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > _REMEMBERED:
        memory.popitem(last=False)
