"""The caller's messages that the last checkpoint does not hold yet, as the masked frames they came in.

Frames are kept as they were forwarded, any number of messages in one piece, a message in any number of pieces, so that keeping
costs one append. Ordinals (from 1) decide what is forgotten and what is replayed; only a replay looks into the pieces.

Bounds: bytes (with what each piece takes beside them), and age. Beyond either the oldest go first, and `covers` is false until a
checkpoint has passed the gap.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from runtime.primitives.clock import NS_PER_S

__all__ = ["KeptMessages"]

_PIECE_BYTES: Final = 128
"""What a piece takes beside its frames, so that a flood of tiny ones is bounded as well."""


class KeptMessages:
    """One call's. `most_bytes` and `most_age_ns` bound it, except while it is frozen: then whoever adds minds `is_full`."""

    __slots__ = (
        "_first",
        "_last",
        "_marks",
        "_most_age_ns",
        "_most_bytes",
        "_pieces",
        "_taken_bytes",
        "dropped",
        "forgotten_upto",
        "is_frozen",
    )

    def __init__(self, most_bytes: int, most_age_ns: int) -> None:
        self._most_bytes = most_bytes
        self._most_age_ns = most_age_ns
        self._pieces: deque[tuple[int, int, bytes]] | None = None  # made when there is one: most calls of a quiet fleet keep none
        """(ordinal of the last message that it has a frame of, of the last one that ends in it or before, frames)."""
        self._first = 1
        """The message that the first byte of the first piece belongs to."""
        self._last = 0
        self._marks: list[tuple[int, int]] = []
        """(time, last ordinal then), a second apart: how old a message is at least."""
        self._taken_bytes = 0
        """Of the pieces, with what each takes beside its frames."""
        self.forgotten_upto = 0
        """Messages up to this ordinal are not here any more."""
        self.dropped = 0
        """Messages that a bound pushed out while they were still needed."""
        self.is_frozen = False
        """Nothing is pushed out: no runtime is there, and all of it will be needed."""

    @property
    def is_full(self) -> bool:
        return self._taken_bytes >= self._most_bytes

    @property
    def size_bytes(self) -> int:
        """Of the frames alone."""
        return self._taken_bytes - _PIECE_BYTES * len(self._pieces or ())

    def covers(self, ordinal: int) -> bool:
        """Whether every message from `ordinal` on is here."""
        return ordinal > self.forgotten_upto

    def add(self, frames: bytes, last: int, is_open: bool) -> None:
        """`frames`: whole frames, the next ones. `last`: the last message that is complete with them; `is_open`: they end within
        the one after it."""
        if self._pieces is None:
            self._pieces = deque()
        self._pieces.append((last + is_open, last, frames))
        self._last = last
        self._taken_bytes += len(frames) + _PIECE_BYTES
        if self._taken_bytes > self._most_bytes and not self.is_frozen:
            while self._taken_bytes > self._most_bytes:
                self._push_out()

    def forget_below(self, ordinal: int) -> None:
        """A checkpoint holds all messages before `ordinal`."""
        while self._pieces and self._pieces[0][0] < ordinal:
            self._shift()
        self.forgotten_upto = max(self.forgotten_upto, ordinal - 1)

    def tick(self, now_ns: int) -> None:
        """Time passed: what is too old is pushed out. To be called every second or more often."""
        marks = self._marks
        if self._last > (marks[-1][1] if marks else 0) and (not marks or now_ns - marks[-1][0] >= NS_PER_S):
            marks.append((now_ns, self._last))
        while marks and (now_ns - marks[0][0] > self._most_age_ns or marks[0][1] <= self.forgotten_upto):
            if marks[0][1] > self.forgotten_upto:
                if self.is_frozen:
                    return
                while self._pieces and self._pieces[0][1] <= marks[0][1]:
                    self._push_out()
            del marks[0]

    def since(self, ordinal: int) -> bytes:
        """All frames of the messages from `ordinal` on, in order. Raises ValueError where some of them are gone."""
        if not self.covers(ordinal):
            raise ValueError(f"ordinal is {ordinal}; allowed: above {self.forgotten_upto}, what is before is forgotten")
        parts = []
        begins = self._first
        for upto, last, frames in self._pieces or ():
            if begins >= ordinal:
                parts.append(frames)
            elif upto >= ordinal:
                parts.append(_without_messages(frames, ordinal - begins))
            begins = last + 1
        return b"".join(parts)

    def _push_out(self) -> None:
        upto = self._shift()
        if upto > self.forgotten_upto:
            self.dropped += upto - self.forgotten_upto
            self.forgotten_upto = upto

    def _shift(self) -> int:
        """Without the first piece; answers with the last message that it has a frame of."""
        assert self._pieces, "there is one: it was looked at"
        upto, last, frames = self._pieces.popleft()
        self._taken_bytes -= len(frames) + _PIECE_BYTES
        self._first = last + 1
        return upto


def _without_messages(frames: bytes, count: int) -> bytes:
    """Without the first `count` messages; `frames` are whole and valid (RFC 6455 section 5.2)."""
    at = 0
    while count and at < len(frames):
        length = frames[at + 1] & 0x7F
        head = 2
        if length > 125:
            head += 2 if length == 126 else 8
            length = int.from_bytes(frames[at + 2 : at + head], "big")
        count -= frames[at] >> 7  # the last fragment has the FIN bit
        at += head + length + (4 if frames[at + 1] & 0x80 else 0)
    return frames[at:]
