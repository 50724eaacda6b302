"""When each frame of a reply is due: a stated lead ahead of play-out, never the whole sentence at once."""

from __future__ import annotations

from typing import Final

from runtime.primitives.clock import NS_PER_MS

__all__ = ["FRAME_MS", "Pacer"]

FRAME_MS: Final = 20


class Pacer:
    """Play-out is taken to begin when the first frame leaves, and to run on without a gap.

    due(i) = start + i * 20 ms - lead. A frame that is asked for after its own play-out time is late: the caller hears a gap, and
    the play-out clock is moved on by as much.
    """

    __slots__ = ("_lead_ns", "_sent", "_start_ns")

    def __init__(self, lead_ms: int) -> None:
        self._lead_ns = lead_ms * NS_PER_MS
        self._sent = 0
        self._start_ns: int | None = None

    @property
    def sent_ms(self) -> int:
        return self._sent * FRAME_MS

    def wait_ns(self, now_ns: int) -> int:
        """How long the next frame has to wait before it may leave; 0: now."""
        if self._start_ns is None:
            return 0
        return max(0, self._start_ns + self._sent * FRAME_MS * NS_PER_MS - self._lead_ns - now_ns)

    def leave(self, now_ns: int) -> bool:
        """The next frame leaves now. True where it is late."""
        if self._start_ns is None:
            self._start_ns = now_ns
        late_ns = now_ns - (self._start_ns + self._sent * FRAME_MS * NS_PER_MS)
        self._sent += 1
        if late_ns > 0 and self._sent > 1:
            self._start_ns += late_ns
            return True
        return False

    def heard_ms(self, now_ns: int) -> int:
        """How much has been played out by now, at most what was sent."""
        if self._start_ns is None:
            return 0
        return min(self.sent_ms, max(0, now_ns - self._start_ns) // NS_PER_MS)
