"""Where each number lies in the machine's shared memory. Changing anything here is a new layout version.

    word 0    header, one cache line: magic, version, shards, slots a shard, the owner's process id and start
    word 8    shard 0: a counter block of whole cache lines, then its identity slots
    ...       shard 1, and so on

A shard has one writer, the event loop of one worker process, and begins on a cache line of its own, so that two writers never
share a line. All numbers are unsigned 64-bit in native byte order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from runtime.primitives.reasons import EndReason

__all__ = ["END_REASONS", "MAGIC", "MOST_SHARDS", "MOST_SLOTS", "SLOT_ID_BYTES", "VERSION", "Cell", "Header", "Layout", "Slot"]

MAGIC: Final = 0x5357_424F_4152_4431
VERSION: Final = 1
END_REASONS: Final = tuple(EndReason)
"""The order of the `ended` cells. Only ever appended to."""
MOST_SHARDS: Final = 1024
MOST_SLOTS: Final = 125_000
"""The highest hard limit and the quarter above it for calls that move in."""
SLOT_ID_BYTES: Final = 128
_LINE_WORDS: Final = 8


class Header:
    """Words of the header. Magic, owner and the owner's start keep their places in every version: a segment of another version
    still says whether its owner lives."""

    MAGIC: Final = 0
    VERSION: Final = 1
    SHARDS: Final = 2
    SLOTS: Final = 3
    OWNER_PID: Final = 4
    OWNER_START: Final = 5
    WORDS: Final = _LINE_WORDS


class Cell:
    """Words of a shard's counter block, from the shard's beginning."""

    SEQUENCE: Final = 0
    """Odd while the writer is between two consistent states."""
    WRITER_PID: Final = 1
    """0: nobody writes here."""
    JOURNAL: Final = 2
    """1 + the cell that is being changed; 0: nothing is under way. The next three are its redo record."""
    JOURNAL_VALUE: Final = 3
    JOURNAL_SLOT: Final = 4
    JOURNAL_STATE: Final = 5
    STARTED: Final = 6
    MOVED_IN: Final = 7
    MOVED_OUT: Final = 8
    LOST: Final = 9
    ENDED: Final = 10
    """The first of one cell for each of `END_REASONS`."""
    WORDS: Final = -(-(ENDED + len(END_REASONS)) // _LINE_WORDS) * _LINE_WORDS


class Slot:
    """Words of an identity slot, from the slot's beginning. A slot is a whole number of cache lines."""

    STATE: Final = 0
    """0 free, 1 live."""
    EPOCH: Final = 1
    ID_LENGTH: Final = 2
    """Bytes of the session id."""
    ID: Final = 8
    WORDS: Final = ID + SLOT_ID_BYTES // 8


@dataclass(frozen=True, slots=True)
class Layout:
    """`shards`: writers at most; `slots`: live legs that one shard can name."""

    shards: int
    slots: int

    def __post_init__(self) -> None:
        if not 1 <= self.shards <= MOST_SHARDS or not 1 <= self.slots <= MOST_SLOTS:
            raise ValueError(
                f"{self.shards} shards (allowed: 1 to {MOST_SHARDS}), {self.slots} slots (allowed: 1 to {MOST_SLOTS})"
            )

    @property
    def shard_words(self) -> int:
        return Cell.WORDS + self.slots * Slot.WORDS

    @property
    def total_bytes(self) -> int:
        return 8 * (Header.WORDS + self.shards * self.shard_words)

    def shard(self, index: int) -> int:
        """The word at which a shard begins."""
        if not 0 <= index < self.shards:
            raise ValueError(f"shard is {index}; allowed: 0 to {self.shards - 1}")
        return Header.WORDS + index * self.shard_words

    def slot(self, shard: int, index: int) -> int:
        """The word at which an identity slot of a shard begins."""
        return self.shard(shard) + Cell.WORDS + index * Slot.WORDS
