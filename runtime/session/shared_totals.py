"""The reader's end of the machine's shared memory: consistent totals of each shard, and their sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from runtime.primitives.load_snapshot import LegTotals
from runtime.session.shared_layout import END_REASONS, MAGIC, VERSION, Cell, Header, Layout

__all__ = ["TornShard", "add_up", "impossible_cells", "no_pause", "read_cells", "read_layout", "read_shard", "write_header"]

_SPINS: Final = 100
_PAUSES: Final = 200
_ENDED_SLICE: Final = slice(Cell.ENDED, Cell.ENDED + len(END_REASONS))


class TornShard(Exception):
    """The writer has been between two states for as long as the reader tried: it died there and waits to be reclaimed."""


def no_pause() -> None:
    """Tries again at once."""


def write_header(words: memoryview, layout: Layout, owner_pid: int, owner_start: int) -> None:
    """Makes a zeroed segment valid. The magic comes last: a segment that is half made is not taken for one."""
    words[Header.VERSION] = VERSION
    words[Header.SHARDS] = layout.shards
    words[Header.SLOTS] = layout.slots
    words[Header.OWNER_PID] = owner_pid
    words[Header.OWNER_START] = owner_start
    words[Header.MAGIC] = MAGIC


def read_layout(words: memoryview) -> Layout | None:
    """The layout of a segment; None where it is none of ours, of another version, or does not fit its length."""
    if len(words) < Header.WORDS or words[Header.MAGIC] != MAGIC or words[Header.VERSION] != VERSION:
        return None
    try:
        layout = Layout(words[Header.SHARDS], words[Header.SLOTS])
    except ValueError:
        return None
    return layout if layout.total_bytes <= 8 * len(words) else None


def read_shard(words: memoryview, layout: Layout, index: int, pause: Callable[[], None] = no_pause) -> LegTotals:
    """One shard's totals at one instant. Raises TornShard."""
    seen = read_cells(words, layout, index, pause)
    ended = {reason.value: count for reason, count in zip(END_REASONS, seen[_ENDED_SLICE], strict=True) if count}
    return LegTotals(seen[Cell.STARTED], seen[Cell.MOVED_IN], seen[Cell.MOVED_OUT], seen[Cell.LOST], ended)


def read_cells(words: memoryview, layout: Layout, index: int, pause: Callable[[], None] = no_pause) -> list[int]:
    """A shard's counter block at one instant; retries while the writer is at work. Raises TornShard.

    A change takes microseconds, but the system may take the processor from the writer in the middle of one. So after some tries
    the reader calls `pause` between two of them, which should let others run: for 50 us, say, up to two hundred times.
    """
    base = layout.shard(index)
    block = words[base : base + Cell.WORDS]
    for attempt in range(_SPINS + _PAUSES):
        if attempt >= _SPINS:
            pause()
        before = block[Cell.SEQUENCE]
        if before % 2 == 0:
            seen = block.tolist()
            if block[Cell.SEQUENCE] == before == seen[Cell.SEQUENCE]:
                return seen
    raise TornShard(f"shard {index}")


def impossible_cells(cells: list[int], layout: Layout) -> str:
    """What cannot be in a block that was read at one instant; empty where nothing is.

    Every change adds one to one counter and two to the sequence. A writer that died before its redo record was whole has left a
    sequence without a change, so there may be fewer changes than the sequence says, never more.
    """
    sequence = cells[Cell.SEQUENCE]
    arrived = cells[Cell.STARTED] + cells[Cell.MOVED_IN]
    left = cells[Cell.MOVED_OUT] + cells[Cell.LOST] + sum(cells[_ENDED_SLICE])
    if sequence % 2:
        return f"the sequence is odd: {sequence}"
    if cells[Cell.JOURNAL]:
        return f"a change is under way: {cells[Cell.JOURNAL]}"
    if 2 * (arrived + left) > sequence:
        return f"{arrived + left} changes; the sequence says {sequence // 2}"
    if not 0 <= arrived - left <= layout.slots:
        return f"active is {arrived - left}; there are {layout.slots} slots"
    return ""


def add_up(words: memoryview, layout: Layout, pause: Callable[[], None] = no_pause) -> LegTotals:
    """The machine's totals: a sum of instants, one for each shard. Raises TornShard."""
    started = moved_in = moved_out = lost = 0
    ended: dict[str, int] = {}
    for index in range(layout.shards):
        shard = read_shard(words, layout, index, pause)
        started += shard.started
        moved_in += shard.moved_in
        moved_out += shard.moved_out
        lost += shard.lost
        for reason, count in shard.ended.items():
            ended[reason] = ended.get(reason, 0) + count
    return LegTotals(started, moved_in, moved_out, lost, ended)
