"""Reads the machine's shared memory at full speed from a process of its own, and says what it saw that cannot be.

`python -m perf.faults.reader FILE`: reads until its standard input ends, then prints one JSON object.
"""

from __future__ import annotations

import json
import os
import select
import sys
from pathlib import Path
from typing import Final

from runtime.app.machine_memory import MachineMemory
from runtime.session.shared_layout import END_REASONS, Cell, Layout
from runtime.session.shared_totals import TornShard, impossible_cells

__all__ = ["impossible"]

_READS_A_LOOK: Final = 2_000
_GROWING: Final = {
    "sequence": Cell.SEQUENCE,
    "started": Cell.STARTED,
    "moved_in": Cell.MOVED_IN,
    "moved_out": Cell.MOVED_OUT,
    "lost": Cell.LOST,
    **{f"ended {reason}": Cell.ENDED + index for index, reason in enumerate(END_REASONS)},
}


def impossible(before: list[int], now: list[int], layout: Layout) -> str:
    """What is wrong with a block that was read after another of the same shard; empty where nothing is."""
    fault = impossible_cells(now, layout)
    if fault:
        return fault
    for name, cell in _GROWING.items():
        if now[cell] < before[cell]:
            return f"{name} fell from {before[cell]} to {now[cell]}"
    changes = sum(now[cell] - before[cell] for cell in _GROWING.values() if cell != Cell.SEQUENCE)
    if 2 * changes > now[Cell.SEQUENCE] - before[Cell.SEQUENCE]:
        return f"{changes} changes while the sequence went from {before[Cell.SEQUENCE]} to {now[Cell.SEQUENCE]}"
    return ""


def _read(memory: MachineMemory) -> dict[str, object]:
    shards = memory.layout.shards
    before = [[0] * Cell.WORDS for _ in range(shards)]
    reads = torn = found = 0
    states = 0
    wrong: list[str] = []
    while not select.select([sys.stdin], [], [], 0)[0]:
        for number in range(_READS_A_LOOK):
            index = number % shards
            try:
                now = memory.shard_cells(index)
            except TornShard:
                torn += 1  # its writer was killed, or put aside by the system, in mid-change
                continue
            reads += 1
            if now == before[index]:
                continue
            states += 1
            fault = impossible(before[index], now, memory.layout)
            if fault:
                found += 1
                wrong += [f"shard {index}: {fault}"] if len(wrong) < 20 else []
            before[index] = now
    return {"reads": reads, "states_seen": states, "torn": torn, "impossible": found, "examples": wrong}


def main() -> int:
    memory = MachineMemory.attach(Path(sys.argv[1]))
    os.nice(5)  # it reads as fast as it can, and should not slow down those that it reads of
    print(json.dumps({"event": "ready"}), flush=True)
    print(json.dumps(_read(memory)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
