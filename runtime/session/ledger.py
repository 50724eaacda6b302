"""The ledger: which legs exist in this runtime, by identity, and the monotone totals that follow from it.

Truth about sessions lives here and nowhere else. A leg leaves by being itself removed, never by arithmetic, so ending twice,
whatever fires together, is a no-op with the answer False.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from runtime.primitives.errors import Fault, VoiceError
from runtime.primitives.ids import Epoch, SessionId
from runtime.primitives.load_snapshot import LegTotals
from runtime.primitives.reasons import EndReason, RefusalReason
from runtime.session.lifecycle import LegInput, LegState, next_state
from runtime.session.settlement import PlacementRef

__all__ = ["DuplicateSession", "Ledger", "LedgerObserver", "Leg", "LegChange", "LegEvent", "UnknownTicket"]


class DuplicateSession(VoiceError):
    """The session id is attached or live here already; its owner keeps it."""

    code = "session_exists"
    fault = Fault.PEER

    def __init__(self, session_id: SessionId) -> None:
        self.session_id = session_id
        super().__init__(f"session {session_id!r} is live on this runtime; end it first or choose another id")


class UnknownTicket(VoiceError):
    """The ticket was never given, was used, or has expired."""

    code = "unknown_ticket"
    fault = Fault.PEER
    retryable = True

    def __init__(self) -> None:
        super().__init__("the ticket is unknown, used or expired; ask for a new placement")


class LegChange(StrEnum):
    STARTED = "started"
    MOVED_IN = "moved_in"
    ENDED = "ended"
    MOVED_OUT = "moved_out"


@dataclass(frozen=True, slots=True)
class LegEvent:
    """A leg began or ended. `version` grows by one with each; `reason` only with ENDED."""

    session_id: SessionId
    epoch: Epoch
    change: LegChange
    version: int
    reason: EndReason | None = None


class LedgerObserver(Protocol):
    """Hears of every change, inside the call that makes it; must not block or raise."""

    def leg_changed(self, event: LegEvent) -> None: ...


@dataclass(slots=True, eq=False)
class Leg:
    """One entry. Only the ledger changes it; others read.

    Attributes:
        is_adoption: it goes on with a session that was served elsewhere.
        is_relayed: a relay reserved it and will hold the caller's connection.
        tenant: whose session it is; empty where nobody said.
    """

    session_id: SessionId
    epoch: Epoch
    ticket: str
    reserved_at_ns: int
    lease_until_ns: int
    is_adoption: bool = False
    is_relayed: bool = False
    placement: PlacementRef | None = None
    state: LegState = LegState.RESERVED
    started_at_ns: int = 0
    end_reason: EndReason | None = None
    is_speaking: bool = field(default=False)
    tenant: str = ""


class Ledger:
    """All legs of this runtime. Single-threaded: the event loop's thread owns it.

    Args:
        observer: hears every change.
        new_ticket: makes an unguessable one-use ticket (at least 128 random bits).
        attach_lease_ns: how long an attached leg may stay silent before it expires.
    """

    def __init__(self, observer: LedgerObserver, new_ticket: Callable[[], str], attach_lease_ns: int) -> None:
        self._observer = observer
        self._new_ticket = new_ticket
        self._attach_lease_ns = attach_lease_ns
        self._legs: dict[SessionId, Leg] = {}
        self._by_ticket: dict[str, Leg] = {}
        self._live: dict[SessionId, Leg] = {}
        self._leases: list[tuple[int, int, Leg]] = []
        """A heap by the end of the lease; a leg may be there twice, or after it has ended. The second number breaks ties."""
        self._given = 0
        self._active = 0
        self._version = 0
        self._started = 0
        self._moved_in = 0
        self._moved_out = 0
        self._ended: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()

    @property
    def version(self) -> int:
        """Grows by one with every leg event."""
        return self._version

    @property
    def active(self) -> int:
        return self._active

    @property
    def reserved(self) -> int:
        """Reserved or attached: on the way, not yet a session."""
        return len(self._legs) - self._active

    @property
    def speaking(self) -> int:
        return sum(leg.is_speaking for leg in self._live.values())

    @property
    def totals(self) -> LegTotals:
        return LegTotals(
            started=self._started,
            moved_in=self._moved_in,
            moved_out=self._moved_out,
            ended=dict(self._ended),
            refused=dict(self._refused),
        )

    def find(self, session_id: SessionId) -> Leg | None:
        return self._legs.get(session_id)

    def live(self) -> Iterator[Leg]:
        """The active legs."""
        return iter(self._live.values())

    def reserve(
        self,
        session_id: SessionId,
        epoch: Epoch,
        *,
        lease_ns: int,
        now_ns: int,
        is_adoption: bool = False,
        is_relayed: bool = False,
        placement: PlacementRef | None = None,
        tenant: str = "",
    ) -> Leg:
        """Holds a place. Raises DuplicateSession where the id has an entry."""
        if session_id in self._legs:
            raise DuplicateSession(session_id)
        leg = Leg(session_id, epoch, self._new_ticket(), now_ns, now_ns + lease_ns, is_adoption, is_relayed, placement)
        leg.tenant = tenant
        self._legs[session_id] = leg
        self._by_ticket[leg.ticket] = leg
        self._lease(leg)
        return leg

    def holding(self, ticket: str) -> Leg | None:
        """The reservation under a ticket that is not used yet; its lease may be over."""
        return self._by_ticket.get(ticket)

    def count_refusal(self, reason: RefusalReason) -> None:
        self._refused[reason] += 1

    def attach(self, ticket: str, now_ns: int) -> Leg:
        """A handshake is complete. The ticket is used up. Raises UnknownTicket."""
        leg = self._by_ticket.pop(ticket, None)
        if leg is None or (leg.state is LegState.RESERVED and leg.lease_until_ns <= now_ns):
            if leg is not None:
                self._remove(leg, LegInput.EXPIRE)
            raise UnknownTicket
        self._step(leg, LegInput.ATTACH)
        leg.lease_until_ns = now_ns + self._attach_lease_ns
        self._lease(leg)
        return leg

    def start(self, leg: Leg, now_ns: int) -> bool:
        """The first valid message came: from now on it is a session. False where the leg is no longer attached."""
        if not self._step(leg, LegInput.START):
            return False
        leg.started_at_ns = now_ns
        self._live[leg.session_id] = leg
        self._active += 1
        if leg.is_adoption:
            self._moved_in += 1
            self._tell(leg, LegChange.MOVED_IN)
        else:
            self._started += 1
            self._tell(leg, LegChange.STARTED)
        return True

    def end(self, leg: Leg, reason: EndReason) -> bool:
        """Ends an attached or active leg. True exactly once a leg; the first reason stays."""
        was_active = leg.state is LegState.ACTIVE
        if not self._remove(leg, LegInput.END):
            return False
        leg.end_reason = reason if was_active else EndReason.NEVER_SPOKE
        if was_active:
            self._active -= 1
            self._ended[reason] += 1
            self._tell(leg, LegChange.ENDED, reason)
        return True

    def move_out(self, leg: Leg) -> bool:
        """The leg goes on elsewhere: the session does not end here. True exactly once."""
        if not self._remove(leg, LegInput.MOVE_OUT):
            return False
        self._active -= 1
        self._moved_out += 1
        self._tell(leg, LegChange.MOVED_OUT)
        return True

    def release(self, ticket: str) -> bool:
        """Gives an unused reservation back. False where nothing was held."""
        leg = self._by_ticket.get(ticket)
        return leg is not None and self._remove(leg, LegInput.RELEASE)

    def expire(self, now_ns: int) -> list[Leg]:
        """Removes every reserved or attached leg whose lease ran out, and answers them. Costs what is over, not what is held."""
        over = []
        while self._leases and self._leases[0][0] <= now_ns:
            leg = heapq.heappop(self._leases)[2]
            if leg.lease_until_ns <= now_ns and self._legs.get(leg.session_id) is leg:
                over.append(leg)
        return [leg for leg in over if self._expire_one(leg)]

    def _lease(self, leg: Leg) -> None:
        self._given += 1
        heapq.heappush(self._leases, (leg.lease_until_ns, self._given, leg))

    def _expire_one(self, leg: Leg) -> bool:
        if not self._remove(leg, LegInput.EXPIRE):
            return False
        leg.end_reason = EndReason.NEVER_SPOKE
        return True

    def _step(self, leg: Leg, given: LegInput) -> bool:
        following = next_state(leg.state, given)
        if following is None:
            return False
        leg.state = following
        return True

    def _remove(self, leg: Leg, given: LegInput) -> bool:
        if not self._step(leg, given):
            return False
        assert self._legs.get(leg.session_id) is leg, "a leg that steps is in the ledger"
        del self._legs[leg.session_id]
        self._live.pop(leg.session_id, None)
        self._by_ticket.pop(leg.ticket, None)
        return True

    def _tell(self, leg: Leg, change: LegChange, reason: EndReason | None = None) -> None:
        self._version += 1
        self._observer.leg_changed(LegEvent(leg.session_id, leg.epoch, change, self._version, reason))
