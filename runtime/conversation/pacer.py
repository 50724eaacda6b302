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

    While it is held the play-out clock stands still: the caller's side is taken to pause, or to run dry and wait.
    """

    __slots__ = ("_acknowledged", "_held_ns", "_lead_ns", "_sent", "_start_ns")

    def __init__(self, lead_ms: int) -> None:
        self._lead_ns = lead_ms * NS_PER_MS
        self._sent = 0
        self._start_ns: int | None = None
        self._held_ns: int | None = None
        self._acknowledged: tuple[int, int] | None = None

    @property
    def sent_frames(self) -> int:
        return self._sent

    def go_on(self, sent_frames: int, heard_ms: int, now_ns: int) -> None:
        """Another pacer has sent so many frames, of which so much was heard by now."""
        self._sent = sent_frames
        if sent_frames:
            self._start_ns = now_ns - heard_ms * NS_PER_MS

    def catch_up(self, sent_frames: int, silent_ms: int, now_ns: int) -> None:
        """After `go_on`: so many frames more were sent meanwhile, the last one so long ago.

        Whoever sent them kept the same lead, so play-out has come so far; what has run dry since is not lost, it waits.
        """
        self._sent += sent_frames
        if not self._sent:
            return
        sent_ns, silent_ns = self.sent_ms * NS_PER_MS, silent_ms * NS_PER_MS
        heard_ns = max(0, sent_ns - self._lead_ns) + silent_ns
        if self._start_ns is not None:
            heard_ns = max(heard_ns, now_ns - self._start_ns)
        self._start_ns = now_ns - min(sent_ns, heard_ns)
        if self._held_ns is not None:
            self._held_ns = now_ns

    @property
    def is_held(self) -> bool:
        return self._held_ns is not None

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

    def hold(self, now_ns: int) -> None:
        """Play-out stands still from now on. A second hold changes nothing."""
        if self._held_ns is None:
            self._held_ns = now_ns

    def resume(self, now_ns: int) -> None:
        """Play-out goes on where it stood still."""
        if self._held_ns is not None:
            if self._start_ns is not None:
                self._start_ns += now_ns - self._held_ns
            if self._acknowledged is not None:
                played_ms, at_ns = self._acknowledged
                self._acknowledged = played_ms, at_ns + now_ns - self._held_ns
            self._held_ns = None

    def acknowledge(self, played_ms: int, now_ns: int) -> None:
        """The caller says that so much was really played by now; it beats the estimate. Out of range is clamped."""
        self._acknowledged = max(0, min(played_ms, self.sent_ms)), now_ns

    def heard_ms(self, now_ns: int) -> int:
        """How much has been played out by now, at most what was sent: since the last acknowledgement, else since the start."""
        until_ns = now_ns if self._held_ns is None else min(now_ns, self._held_ns)
        if self._acknowledged is not None:
            played_ms, at_ns = self._acknowledged
            return min(self.sent_ms, played_ms + max(0, until_ns - at_ns) // NS_PER_MS)
        if self._start_ns is None:
            return 0
        return min(self.sent_ms, max(0, until_ns - self._start_ns) // NS_PER_MS)

    def left_ns(self, now_ns: int) -> int:
        """How long what was sent still plays."""
        return (self.sent_ms - self.heard_ms(now_ns)) * NS_PER_MS
