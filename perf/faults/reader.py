"""Reads the machine's shared memory at full speed from a process of its own, and says what it saw that cannot be.

`python -m perf.faults.reader FILE`: reads until its standard input ends, then prints one JSON object.
"""

from __future__ import annotations

import json
import select
import sys
from pathlib import Path

from runtime.app.machine_memory import MachineMemory
from runtime.primitives.load_snapshot import LegTotals
from runtime.session.shared_totals import TornShard

__all__ = ["impossible"]

_READS_A_LOOK = 2_000


def impossible(before: LegTotals, now: LegTotals) -> str:
    """What is wrong with a snapshot that follows another of the same shard; empty where nothing is."""
    if now.active < 0:
        return f"active is {now.active}"
    for name in ("started", "moved_in", "moved_out", "lost"):
        if getattr(now, name) < getattr(before, name):
            return f"{name} fell from {getattr(before, name)} to {getattr(now, name)}"
    for reason, count in before.ended.items():
        if now.ended.get(reason, 0) < count:
            return f"ended {reason} fell from {count} to {now.ended.get(reason, 0)}"
    return ""


def _read(memory: MachineMemory) -> dict[str, object]:
    shards = memory.layout.shards
    before = [LegTotals() for _ in range(shards)]
    reads = torn = 0
    wrong: list[str] = []
    while not select.select([sys.stdin], [], [], 0)[0]:
        for number in range(_READS_A_LOOK):
            index = number % shards
            try:
                now = memory.shard_totals(index)
            except TornShard:
                torn += 1  # its writer was killed in mid-change and waits to be reclaimed
                continue
            reads += 1
            fault = impossible(before[index], now)
            if fault and len(wrong) < 20:
                wrong.append(f"shard {index}: {fault}")
            before[index] = now
    return {"reads": reads, "waited_for_reclaim": torn, "impossible": wrong}


def main() -> int:
    memory = MachineMemory.attach(Path(sys.argv[1]))
    print(json.dumps({"event": "ready"}), flush=True)
    print(json.dumps(_read(memory)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
