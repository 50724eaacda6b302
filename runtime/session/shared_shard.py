"""One writer's shard of the machine's shared memory: monotone totals, and the names of its live legs.

Every change is one redo record: it is journalled, applied and cleared. A writer that is killed in between leaves a record which
whoever reclaims the shard applies again, so a change is made once, whole, at whatever instruction the writer died.
"""

from __future__ import annotations

from typing import Final

from runtime.primitives.ids import Epoch, SessionId
from runtime.primitives.reasons import EndReason
from runtime.session.shared_layout import END_REASONS, SLOT_ID_BYTES, Cell, Layout, Slot

__all__ = ["Shard", "SlotsFull"]

_FREE: Final = 0
_LIVE: Final = 1


class SlotsFull(Exception):
    """The shard has no free identity slot; it is laid out for at most as many live legs as a runtime admits."""


class Shard:
    """The writer's end. One instance in one process; claiming waits for nobody and checks that nobody else writes.

    Args:
        words: the whole segment as unsigned 64-bit words.
        data: the same memory as bytes.
    """

    def __init__(self, words: memoryview, data: memoryview, layout: Layout, index: int) -> None:
        self._words = words
        self._data = data
        self._layout = layout
        self._index = index
        self._base = layout.shard(index)
        self._free = [slot for slot in range(layout.slots - 1, -1, -1) if words[layout.slot(index, slot)] == _FREE]

    def claim(self, writer_pid: int) -> None:
        """Becomes the writer. Raises ValueError where the shard has one: a dead one is reclaimed first."""
        holder = self._words[self._base + Cell.WRITER_PID]
        if holder:
            raise ValueError(f"shard {self._index} is written by process {holder}")
        self._words[self._base + Cell.WRITER_PID] = writer_pid

    def start(self, session_id: SessionId, epoch: Epoch, *, moved_in: bool = False) -> int:
        """A leg began; answers its slot. Raises SlotsFull."""
        if not self._free:
            raise SlotsFull
        slot = self._free.pop()
        word = self._layout.slot(self._index, slot)
        name = session_id.encode()[:SLOT_ID_BYTES]
        self._words[word + Slot.EPOCH] = epoch
        self._words[word + Slot.ID_LENGTH] = len(name)
        first = 8 * (word + Slot.ID)
        self._data[first : first + len(name)] = name
        self._change(Cell.MOVED_IN if moved_in else Cell.STARTED, slot, _LIVE)
        return slot

    def end(self, slot: int, reason: EndReason) -> None:
        self._change(Cell.ENDED + END_REASONS.index(reason), slot, _FREE)
        self._free.append(slot)

    def move_out(self, slot: int) -> None:
        self._change(Cell.MOVED_OUT, slot, _FREE)
        self._free.append(slot)

    def release(self) -> None:
        """The writer leaves in order; its legs have ended."""
        self._words[self._base + Cell.WRITER_PID] = 0

    def reclaim(self) -> list[tuple[SessionId, Epoch]]:
        """After the writer's death: finishes what it had begun, and ends every live leg `lost`, by name, once.

        Only for the one who knows that the writer is dead. May itself be cut short and called again.
        """
        words, base = self._words, self._base
        if words[base + Cell.JOURNAL]:
            self._apply()
        if words[base + Cell.SEQUENCE] % 2:
            words[base + Cell.SEQUENCE] += 1
        lost = []
        for slot in range(self._layout.slots):
            word = self._layout.slot(self._index, slot)
            if words[word + Slot.STATE] == _LIVE:
                lost.append(self._name(word))
                self._change(Cell.LOST, slot, _FREE)
        words[base + Cell.WRITER_PID] = 0
        self._free = list(range(self._layout.slots - 1, -1, -1))
        return lost

    def live(self) -> list[tuple[SessionId, Epoch]]:
        """The live legs by name. Exact for the writer; for others as of some moment of each slot."""
        words = (self._layout.slot(self._index, slot) for slot in range(self._layout.slots))
        return [self._name(word) for word in words if self._words[word + Slot.STATE] == _LIVE]

    def _name(self, word: int) -> tuple[SessionId, Epoch]:
        first = 8 * (word + Slot.ID)
        length = min(self._words[word + Slot.ID_LENGTH], SLOT_ID_BYTES)
        text = bytes(self._data[first : first + length]).decode(errors="replace")
        return SessionId(text), Epoch(self._words[word + Slot.EPOCH])

    def _change(self, cell: int, slot: int, state: int) -> None:
        """One counter up by one and one slot's state: the redo record first, its commit word last."""
        words, base = self._words, self._base
        words[base + Cell.SEQUENCE] += 1
        words[base + Cell.JOURNAL_VALUE] = words[base + cell] + 1
        words[base + Cell.JOURNAL_SLOT] = slot
        words[base + Cell.JOURNAL_STATE] = state
        words[base + Cell.JOURNAL] = cell + 1
        self._apply()
        words[base + Cell.SEQUENCE] += 1

    def _apply(self) -> None:
        words, base = self._words, self._base
        words[base + words[base + Cell.JOURNAL] - 1] = words[base + Cell.JOURNAL_VALUE]
        slot_word = self._layout.slot(self._index, words[base + Cell.JOURNAL_SLOT])
        words[slot_word + Slot.STATE] = words[base + Cell.JOURNAL_STATE]
        words[base + Cell.JOURNAL] = 0
