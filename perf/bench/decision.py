"""Time of one placement decision: `python -m perf.bench.decision --json`.

The router with every policy, asked for an agent, two abilities and a region, over fleets of 10 to 10,000 runtimes that hold
different loads. Time goes on by the stated decision rate, so that what is rebuilt a few times a second is rebuilt, and
each decision is debited and settled as the placer does; only the decision itself is timed for the median. The cost of
absorbing one report and the share of a core at 500 decisions a second, with all reports at their interval, stand beside it.
Every fleet is measured in rounds; the best round's median is reported with all rounds, since others' work only adds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any, Final

from balancer.fleet.fleet import BalancerLife, Fleet
from balancer.fleet.membership import MembershipRule
from balancer.fleet.registration import Registration
from balancer.routing.fleet_view import FleetView
from balancer.routing.load_rule import LoadRule
from balancer.routing.policies import POLICIES
from balancer.routing.request import PlacementRequest
from balancer.routing.router import Router
from perf.bench.machine import ForeignCpu, describe_machine
from perf.targets import Target, all_met, as_json
from runtime.primitives.clock import NS_PER_S
from runtime.primitives.load_snapshot import LegTotals, LoadSnapshot, RuntimeState
from runtime.primitives.rng import SeededRng

_START_NS: Final = 100 * NS_PER_S
_ROUNDS: Final = 3
_REPORTS_AT_LEAST: Final = 20
_RATE_PER_S: Final = 500
_REPORT_INTERVAL_S: Final = 10.0
_SIZES: Final = (10, 100, 1000, 10_000)
_TARGET_US: Final = {1000: 20.0, 10_000: 100.0}
_CORE_SHARE: Final = 0.10
_LONGEST_STALL_MS: Final = 5.0


class Bench:
    """One fleet under one policy, with its own clock."""

    def __init__(self, size: int, policy: str, seed: int) -> None:
        self.rng = SeededRng(seed)
        load = LoadRule(report_interval_s=_REPORT_INTERVAL_S)
        self.now_ns = _START_NS
        self.fleet = Fleet(BalancerLife("balancer", 1), load, MembershipRule(), self.now_ns, view=FleetView(load, size))
        self.view = self.fleet.view
        self.router = Router(POLICIES[policy](), max_report_age_ns=100 * NS_PER_S)
        self.request = PlacementRequest("call", agent="desk", abilities=frozenset({"book", "tools"}), region="eu")
        self.active = [int(self.rng.random() * 30) for _ in range(size)]
        self.sequence = 0
        for number in range(size):
            facts = Registration(
                f"runtime-{number}", 1, "127.0.0.1:1", "127.0.0.1:2", 100, state=RuntimeState.READY, version="1.2",
                agents=frozenset({"desk"}), abilities=frozenset({"book", "tools", "transfer"}),
                region="eu" if number % 3 else "us",
            )  # fmt: skip
            self.fleet.enroll(facts, self.now_ns)
        for _ in range(3):  # enough for a fitted curve
            self.now_ns += int(_REPORT_INTERVAL_S * NS_PER_S)
            for _ in range(size):
                self.report()
            self.view.load.refresh(self.now_ns)

    def decide(self) -> int:
        """One decision with its upkeep; nanoseconds of the decision alone."""
        self.now_ns += NS_PER_S // _RATE_PER_S
        began_ns = time.perf_counter_ns()
        decision = self.router.decide(self.request, self.view, self.now_ns, self.rng)
        took_ns = time.perf_counter_ns() - began_ns
        slot = decision.candidates[0].slot
        self.view.place(slot, self.now_ns)
        self.view.settle(slot, contained=True)
        self.view.answer(slot, self.active[slot], 1, self.now_ns)
        self.view.end(slot)
        return took_ns

    def report(self) -> int:
        """One report of the next runtime, from the snapshot on, as the report watch brings it; nanoseconds."""
        number = self.sequence % len(self.active)
        self.sequence += 1
        active = self.active[number]
        snapshot = LoadSnapshot(
            f"runtime-{number}", 1, self.sequence, 0, 1, 0, active, 0, 100, LegTotals(started=active), RuntimeState.READY,
            0.02 + 0.01 * active,
        )  # fmt: skip
        began_ns = time.perf_counter_ns()
        self.fleet.take_report(snapshot, (), self.now_ns, may_wait=True)
        return time.perf_counter_ns() - began_ns


def measure(size: int, policy: str, seed: int, round_s: float) -> dict[str, Any]:
    bench = Bench(size, policy, seed)
    reports_per_decision = size / _REPORT_INTERVAL_S / _RATE_PER_S
    rounds, worst_ns, busy_share = [], 0, []
    report_ns = [bench.report() for _ in range(_REPORTS_AT_LEAST)]
    for _ in range(_ROUNDS):
        took_ns = []
        owed = 0.0
        cpu_ns, sim_ns = time.thread_time_ns(), bench.now_ns
        end_ns = time.perf_counter_ns() + int(round_s * NS_PER_S)
        while time.perf_counter_ns() < end_ns:
            began_ns = time.thread_time_ns()
            took_ns.append(bench.decide())
            owed += reports_per_decision
            while owed >= 1.0:
                owed -= 1.0
                report_ns.append(bench.report())
            worst_ns = max(worst_ns, time.thread_time_ns() - began_ns)
        busy_share.append((time.thread_time_ns() - cpu_ns) / (bench.now_ns - sim_ns))
        took_ns.sort()
        rounds.append(
            (statistics.median(took_ns) / 1000, statistics.fmean(took_ns) / 1000, took_ns[int(len(took_ns) * 0.99)] / 1000)
        )
    best = min(rounds)
    return {
        "runtimes": size,
        "policy": policy,
        "median_us": round(best[0], 2),
        "mean_us": round(best[1], 2),
        "p99_us": round(best[2], 2),
        "rounds_median_us": [round(each[0], 2) for each in rounds],
        "report_us": round(statistics.fmean(report_ns) / 1000, 2),
        "core_share": round(min(busy_share), 4),
        "longest_step_cpu_ms": round(worst_ns / 1e6, 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.bench.decision", description="Times a placement decision.")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--seed", type=int, default=1, help="seed of the fleets and draws (default 1)")
    parser.add_argument("--seconds", type=float, default=40.0, help="about how long to measure in all (default 40)")
    parser.add_argument("--policy", choices=sorted(POLICIES), help="this policy alone (default: all)")
    arguments = parser.parse_args()
    if not 1.0 <= arguments.seconds <= 3600.0:
        parser.error(f"--seconds is {arguments.seconds}; allowed: 1 to 3600")
    policies = [arguments.policy] if arguments.policy else list(POLICIES)
    runs = [(size, policy) for policy in policies for size in _SIZES]
    found = []
    with ForeignCpu(time.perf_counter) as foreign:
        for size, policy in runs:
            print(f"{policy} over {size} runtimes ...", file=sys.stderr)
            found.append(measure(size, policy, arguments.seed, arguments.seconds / len(runs) / _ROUNDS))
    targets = []
    for each in found:
        if each["policy"] == "session_aware":
            size = each["runtimes"]
            if size in _TARGET_US:
                targets.append(Target(f"decision_median_at_{size}", each["median_us"], "us", "<", _TARGET_US[size]))
                targets.append(Target(f"core_share_at_{size}", each["core_share"], "cores", "<", _CORE_SHARE))
            targets.append(Target(f"longest_step_at_{size}", each["longest_step_cpu_ms"], "ms", "<", _LONGEST_STALL_MS))
    result = {
        "ok": all_met(targets),
        "targets": as_json(targets),
        "fleets": found,
        "seed": arguments.seed,
        "foreign_cpu_cores": foreign.cores,
        "machine": describe_machine(),
        "method": (
            f"fleet and router without I/O, agent + 2 abilities + region, {_RATE_PER_S} decisions/s and a report each "
            f"{_REPORT_INTERVAL_S:g} s in simulated time; {_ROUNDS} rounds a fleet, best round's median; CPU time of the thread "
            f"for shares and stalls; a report's cost is the mean, with those that wait for others"
        ),
    }
    if arguments.json:
        print(json.dumps(result))
    else:
        for each in found:
            print(
                f"{each['policy']:>24} {each['runtimes']:>6} runtimes: median {each['median_us']} us, P99 {each['p99_us']} us, "
                f"report {each['report_us']} us, {each['core_share']:.1%} of a core"
            )
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
