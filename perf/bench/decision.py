"""Time of one placement decision: `python -m perf.bench.decision --json`.

The pure router with `session_aware`, asked for an agent, two abilities and a region, over fleets of 3 and 1,000 runtimes that
hold different loads. Beside the decision alone: decision, debit and settlement, as the placer does them, so that the upkeep of
the view is not hidden. Every fleet is measured in rounds; the best round's median is reported with all rounds, since others'
work only adds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import replace
from typing import Any, Final

from balancer.routing.fleet_view import FleetView, RuntimeRow
from balancer.routing.policies import POLICIES
from balancer.routing.request import PlacementRequest
from balancer.routing.router import Router
from perf.bench.machine import ForeignCpu, describe_machine
from perf.targets import Target, all_met, as_json
from runtime.primitives.clock import NS_PER_S
from runtime.primitives.load_snapshot import RuntimeState
from runtime.primitives.rng import SeededRng

_NOW_NS: Final = 100 * NS_PER_S
_ROUNDS: Final = 5
_TARGET_US: Final = {3: 20.0, 1000: 20.0}


def make_fleet(size: int, rng: SeededRng) -> FleetView:
    view = FleetView()
    for number in range(size):
        view.put(
            RuntimeRow(
                runtime_id=f"runtime-{number}",
                incarnation=1,
                state=RuntimeState.READY,
                arrived_ns=_NOW_NS - int(rng.random() * NS_PER_S),
                active=int(rng.random() * 30),
                hard_limit=50,
                effective=45.0,
                utilisation=0.3,
                agents=frozenset({"desk"}),
                abilities=frozenset({"book", "tools", "transfer"}),
                region="eu" if number % 3 else "us",
                version=(1, 2),
            )
        )
    return view


def measure(size: int, seed: int, round_s: float) -> dict[str, Any]:
    rng = SeededRng(seed)
    view = make_fleet(size, rng)
    router = Router(POLICIES["session_aware"](), max_report_age_ns=3 * NS_PER_S)
    request = PlacementRequest("call", agent="desk", abilities=frozenset({"book", "tools"}), region="eu")
    rounds = []
    for _ in range(_ROUNDS):
        took_ns, with_upkeep_ns = [], []
        end_ns = time.perf_counter_ns() + int(round_s * NS_PER_S)
        while True:
            began_ns = time.perf_counter_ns()
            if began_ns > end_ns:
                break
            decision = router.decide(request, view, _NOW_NS, rng)
            decided_ns = time.perf_counter_ns()
            row = view.get(decision.candidates[0].runtime_id)
            assert row is not None
            view.put(replace(row, in_flight=row.in_flight + 1))
            view.put(row)
            done_ns = time.perf_counter_ns()
            took_ns.append(decided_ns - began_ns)
            with_upkeep_ns.append(done_ns - began_ns)
        took_ns.sort()
        rounds.append(
            {
                "decisions": len(took_ns),
                "median_us": round(statistics.median(took_ns) / 1000, 2),
                "p99_us": round(took_ns[int(len(took_ns) * 0.99)] / 1000, 2),
                "median_with_debit_and_settlement_us": round(statistics.median(with_upkeep_ns) / 1000, 2),
            }
        )
    best = min(rounds, key=lambda each: float(each["median_us"]))
    return {"runtimes": size, **best, "rounds_median_us": [each["median_us"] for each in rounds]}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.bench.decision", description="Times a placement decision.")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--seed", type=int, default=1, help="seed of the fleets and draws (default 1)")
    parser.add_argument("--seconds", type=float, default=5.0, help="about how long to measure in all (default 5)")
    arguments = parser.parse_args()
    sizes = list(_TARGET_US)
    found = []
    with ForeignCpu(time.perf_counter) as foreign:
        for size in sizes:
            print(f"deciding over {size} runtimes ...", file=sys.stderr)
            found.append(measure(size, arguments.seed, arguments.seconds / len(sizes) / _ROUNDS))
    targets = [
        Target(f"decision_median_at_{each['runtimes']}", each["median_us"], "us", "<", _TARGET_US[each["runtimes"]])
        for each in found
    ]
    result = {
        "ok": all_met(targets),
        "targets": as_json(targets),
        "fleets": found,
        "seed": arguments.seed,
        "foreign_cpu_cores": foreign.cores,
        "machine": describe_machine(),
        "method": f"pure router, session_aware, agent + 2 abilities + region; {_ROUNDS} rounds a fleet, best round's median",
    }
    if arguments.json:
        print(json.dumps(result))
    else:
        for each in found:
            print(f"{each['runtimes']:>6} runtimes: median {each['median_us']} us, P99 {each['p99_us']} us")
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
