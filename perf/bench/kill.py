"""How soon a killed runtime is noticed: `python -m perf.bench.kill --json`.

A balancer and two runtimes as processes (synthetic engines: no model matters here) and six calls through the balancer, in turn.
One runtime gets SIGKILL. Timed from there: until the balancer places nothing there any more, until its callers hear of it, and
until the books have given up its sessions, which wait for the grace that a runtime has to come back. Then new calls must
succeed elsewhere.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import anyio

from clients.realtime import Call, CallFailed, connect
from perf.bench.machine import ForeignCpu, describe_machine
from perf.fleet import LocalFleet, local_fleet
from perf.processes import ProgramFailed
from perf.targets import Target, all_met, as_json

_CALLS: Final = 6
_NEW_CALLS: Final = 3
_POLL_S: Final = 0.005
_WITHIN_S: Final = 10.0


async def _trial(logs: Path) -> dict[str, Any]:
    # In turn: how much room a runtime has is not the question here.
    arguments = ["--public-port", "0", "--operator-port", "0", "--control-port", "0", "--policy", "round_robin"]
    async with (
        local_fleet(2, logs, balancer_arguments=arguments, runtime_arguments=["--engines", "synthetic"]) as fleet,
        AsyncExitStack() as lines,
    ):
        calls = [await _open(fleet, lines) for _ in range(_CALLS)]
        held = Counter(call.runtime_id for call in calls)
        victim, lost = held.most_common(1)[0]
        await fleet.wait_for("the calls in the books", lambda seen: seen["books"]["active"] == _CALLS, _WITHIN_S)
        heard_s: list[float] = []
        began_s = time.perf_counter()
        next(program for program in fleet.runtimes if program.ready["runtime_id"] == victim).kill()
        async with anyio.create_task_group() as group:
            for call in calls:
                if call.runtime_id == victim:
                    group.start_soon(_hear_the_end, call, began_s, heard_s)
            seen_s, gone_s = await _watch(fleet, victim, lost, began_s)
        others = {(await _open(fleet, lines)).runtime_id for _ in range(_NEW_CALLS)}
        return {
            "calls_lost": lost,
            "nothing_placed_after_ms": round(seen_s * 1000, 1),
            "callers_told_after_ms": round(max(heard_s) * 1000, 1),
            "out_of_the_books_after_ms": round(gone_s * 1000, 1),
            "new_calls_elsewhere": victim not in others,
        }


async def _open(fleet: LocalFleet, lines: AsyncExitStack) -> Call:
    call = await lines.enter_async_context(connect(fleet.call_url))
    await call.send({"type": "session.update", "session": {"type": "realtime"}})
    return call


async def _hear_the_end(call: Call, began_s: float, heard_s: list[float]) -> None:
    try:
        async for _ in call.events():
            pass
    except CallFailed:
        heard_s.append(time.perf_counter() - began_s)


async def _watch(fleet: LocalFleet, victim: str, lost: int, began_s: float) -> tuple[float, float]:
    """Seconds until the victim gets nothing more, and until its sessions have left the books. Raises ProgramFailed."""
    seen_s: float | None = None
    with anyio.move_on_after(_WITHIN_S):
        while True:
            document = await fleet.document("/v1/fleet")
            now_s = time.perf_counter() - began_s
            if seen_s is None and not any(each["runtime_id"] == victim and each["eligible"] for each in document["runtimes"]):
                seen_s = now_s
            if seen_s is not None and document["books"]["runtime_lost"] == lost:
                return seen_s, now_s
            await anyio.sleep(_POLL_S)
    raise ProgramFailed(f"the killed runtime was not given up within {_WITHIN_S:g} s")


async def bench(trials: int) -> list[dict[str, Any]]:
    found = []
    for number in range(1, trials + 1):
        print(f"kill: trial {number} of {trials}", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="switchboard-bench-") as logs:
            found.append(await _trial(Path(logs)))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.bench.kill", description="How soon a killed runtime is noticed.")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--trials", type=int, default=3, choices=range(1, 21), metavar="1-20", help="how often (default 3)")
    arguments = parser.parse_args()
    try:
        with ForeignCpu(time.perf_counter) as foreign:
            trials = anyio.run(bench, arguments.trials)
    except (ProgramFailed, CallFailed, OSError) as error:
        message = " ".join(str(error).split())
        print(f"kill: {message}", file=sys.stderr)
        if arguments.json:
            print(json.dumps({"ok": False, "reason": message, "targets": []}))
        return 1

    def worst(name: str) -> float:
        return max(float(trial[name]) for trial in trials)

    targets = [
        Target("nothing_placed_after", worst("nothing_placed_after_ms"), "ms", "<", 2000.0),
        Target("callers_told_after", worst("callers_told_after_ms"), "ms", "<", 2000.0),
        Target("out_of_the_books_after", worst("out_of_the_books_after_ms"), "ms", "<", 2000.0),
        Target("new_calls_elsewhere", min(float(trial["new_calls_elsewhere"]) for trial in trials), "yes", "==", 1.0),
    ]
    result = {
        "ok": all_met(targets),
        "targets": as_json(targets),
        "trials": trials,
        "foreign_and_own_children_cpu_cores": foreign.cores,
        "machine": describe_machine(),
        "method": f"worst of {arguments.trials} trials; {_CALLS} calls on two runtimes, one killed; seen by polling every 5 ms",
    }
    if arguments.json:
        print(json.dumps(result))
    else:
        print("\n".join(f"{target.name}: {target.value:g} {target.unit}" for target in targets))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
