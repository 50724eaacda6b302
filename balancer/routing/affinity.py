"""Which runtime a session belongs to, so that a caller who comes back finds what was said before.

    placed    a place is held; if nobody takes it, the binding ages as an ended one does
    lives     bound while the session lives
    ended     kept for a day after the end

Memory is bounded: beyond `limit` the binding that ended first leaves, and a live one only where no ended one is left.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from runtime.primitives.clock import NS_PER_S

__all__ = ["KEPT_NS", "LIMIT", "Affinity"]

LIMIT: Final = 100_000
KEPT_NS: Final = 24 * 3600 * NS_PER_S
"""How long after its end a session may come back to its runtime (requirement R5)."""


class Affinity:
    """Bindings by session id. Every call is O(1), but for what expires with it."""

    __slots__ = ("_ended", "_kept_ns", "_limit", "_live")

    def __init__(self, limit: int = LIMIT, kept_ns: int = KEPT_NS) -> None:
        if limit < 1 or kept_ns < 0:
            raise ValueError(f"limit is {limit}, kept_ns is {kept_ns}; allowed: at least 1, at least 0")
        self._limit = limit
        self._kept_ns = kept_ns
        self._live: OrderedDict[str, str] = OrderedDict()
        """session -> runtime, bound longest ago first."""
        self._ended: OrderedDict[str, tuple[str, int]] = OrderedDict()
        """session -> (runtime, end), ended first first."""

    def __len__(self) -> int:
        return len(self._live) + len(self._ended)

    @property
    def live(self) -> int:
        return len(self._live)

    def placed(self, session_id: str, runtime_id: str, now_ns: int) -> None:
        """A place is held there. The binding of a live session stays what it is: only its start elsewhere moves it."""
        if session_id not in self._live:
            self._end(session_id, runtime_id, now_ns)

    def lives(self, session_id: str, runtime_id: str, now_ns: int) -> None:
        """The session is live there now."""
        self._ended.pop(session_id, None)
        self._live[session_id] = runtime_id
        self._live.move_to_end(session_id)
        self._shrink(now_ns)

    def ended(self, session_id: str, runtime_id: str, now_ns: int) -> None:
        """It is no longer live there. No effect on a session that lives elsewhere by now (it moved)."""
        if self._live.get(session_id) == runtime_id:
            del self._live[session_id]
            self._end(session_id, runtime_id, now_ns)

    def runtime_of(self, session_id: str, now_ns: int) -> str:
        """Where the session belongs; empty: nowhere. Reading changes nothing."""
        runtime_id = self._live.get(session_id)
        if runtime_id is not None:
            return runtime_id
        ended = self._ended.get(session_id)
        return ended[0] if ended is not None and now_ns - ended[1] <= self._kept_ns else ""

    def _end(self, session_id: str, runtime_id: str, now_ns: int) -> None:
        self._ended[session_id] = (runtime_id, now_ns)
        self._ended.move_to_end(session_id)
        self._shrink(now_ns)

    def _shrink(self, now_ns: int) -> None:
        while self._ended:
            _, ended_ns = next(iter(self._ended.values()))
            if now_ns - ended_ns <= self._kept_ns and len(self) <= self._limit:
                break
            self._ended.popitem(last=False)
        while len(self._live) > self._limit:
            self._live.popitem(last=False)
