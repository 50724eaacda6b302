"""What the lab itself knows of each connection, and so which of them a kill must have cut, and which it may have cut. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final

from perf.faults.plan import Connection, Ending, Outcome

__all__ = ["Journal", "Visit"]


_LATE_S: Final = 1.0


class _Phase(Enum):
    COMING = "coming"
    HELD = "held"
    """Acknowledged, and neither side has a reason to end it."""
    LEAVING = "leaving"
    """One side ends it, or may at any time."""


class Visit:
    """One connection while it lasts. `place`, `hold` and `leave` in this order; each may be left out."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.runtime_id = ""
        """Empty: not known (yet)."""
        self.was_acknowledged = False
        self.phase = _Phase.COMING

    def place(self, runtime_id: str) -> None:
        self.runtime_id = runtime_id

    def hold(self) -> None:
        self.was_acknowledged = True
        self.phase = _Phase.HELD

    def leave(self) -> None:
        self.was_acknowledged = True
        self.phase = _Phase.LEAVING


class Journal:
    """Args:
        now_s: the time, in seconds.

    Attributes:
        outcomes: by session id, of the connections that are over.
        must: sessions that were live on a worker when it was killed.
        may: those that were on their way to it or from it, or nobody knew where.
        late: those that were over for their caller less than a second before; the worker may not have got so far.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self.must: set[str] = set()
        self.may: set[str] = set()
        self.late: set[str] = set()
        self._now_s = now_s
        self._open: set[Visit] = set()
        self._closed: deque[tuple[float, Visit]] = deque(maxlen=10_000)

    def open(self, connection: Connection) -> Visit:
        visit = Visit(connection)
        self._open.add(visit)
        return visit

    def close(self, visit: Visit, outcome: Outcome) -> None:
        self._open.discard(visit)
        self._closed.append((self._now_s(), visit))
        self.outcomes[visit.connection.session_id] = outcome

    @property
    def touched(self) -> set[str]:
        """All that a kill may have had to do with."""
        return self.must | self.may | self.late

    def held(self, ending: Ending, runtime_id: str = "") -> int:
        """How many of this ending are held now, by this runtime or by any."""
        held = (visit for visit in self._open if visit.phase is _Phase.HELD and visit.connection.ending is ending)
        return sum(runtime_id in ("", visit.runtime_id) for visit in held)

    def killed(self, runtime_id: str) -> None:
        """Call it in the step in which the worker is killed."""
        since_s = self._now_s() - _LATE_S
        late = (visit for at_s, visit in self._closed if at_s > since_s and visit.runtime_id in ("", runtime_id))
        self.late |= {visit.connection.session_id for visit in late}
        for visit in self._open:
            if visit.runtime_id in ("", runtime_id):
                is_sure = visit.runtime_id and visit.phase is _Phase.HELD
                (self.must if is_sure else self.may).add(visit.connection.session_id)
