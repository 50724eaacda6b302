"""Many runs: scenarios x policies x seeds, over processes, with progress on standard error."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from balancer.routing.load_rule import LoadRule
from balancer.routing.policies import POLICIES
from balancer.routing.policies.consistent_hash import ConsistentHash
from balancer.routing.policies.session_aware import SessionAware
from balancer.routing.policy import Policy
from perf.sim.chooser import Chooser, Ideal, Routers
from perf.sim.model import Scenario
from perf.sim.scenarios import scenario
from perf.sim.simulation import Simulation
from perf.sim.statistics import Estimate, over_seeds

__all__ = ["EXTRA_CHOOSERS", "Cell", "Job", "chooser_of", "rule_of", "run_jobs", "summarise"]

EXTRA_CHOOSERS = ("ideal", "session_aware_unverified")
"""Beside the policies: perfect knowledge, and the default policy without its second look."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run. Sizes are the scenario's own where None."""

    scenario: str
    policy: str
    seed: int
    runtimes: int | None = None
    balancers: int | None = None
    sessions_each: float | None = None
    warm_up_s: float | None = None
    measured_s: float | None = None

    def build(self) -> Scenario:
        sizes = (self.runtimes, self.balancers, self.sessions_each, self.warm_up_s, self.measured_s)
        return scenario(self.scenario, *sizes)


@dataclass(frozen=True, slots=True)
class Cell:
    """One policy in one scenario, over its seeds."""

    scenario: str
    policy: str
    seeds: int
    values: dict[str, Estimate]


def _unverified() -> Policy:
    return SessionAware(verifies=False)


def chooser_of(policy: str) -> Chooser:
    """Raises KeyError for an unknown name."""
    if policy == "ideal":
        return Ideal()
    return Routers(_unverified if policy == "session_aware_unverified" else POLICIES[policy])


def rule_of(made: Scenario, policy: str) -> LoadRule:
    """Those that look at no learned capacity are spared the learning."""
    learns = policy.startswith("session_aware") or policy == ConsistentHash.name
    return LoadRule(report_interval_s=made.network.report_interval_s, mean_life_s=made.callers.mean_s, learns_capacity=learns)


def run_job(job: Job) -> dict[str, float]:
    made = job.build()
    return Simulation(made, chooser_of(job.policy), rule_of(made, job.policy), job.seed).run().summary()


def run_jobs(jobs: Sequence[Job], processes: int) -> list[dict[str, float]]:
    """In the jobs' order, whatever the number of processes."""
    found: list[dict[str, float]] = []
    if processes <= 1:
        results = map(run_job, jobs)
        for job, result in zip(jobs, results, strict=True):
            found.append(result)
            _tell(len(found), len(jobs), job)
        return found
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes) as pool:
        for job, result in zip(jobs, pool.imap(run_job, jobs), strict=True):
            found.append(result)
            _tell(len(found), len(jobs), job)
    return found


def summarise(jobs: Sequence[Job], results: Sequence[dict[str, float]]) -> list[Cell]:
    grouped: dict[tuple[str, str], list[dict[str, float]]] = {}
    for job, result in zip(jobs, results, strict=True):
        grouped.setdefault((job.scenario, job.policy), []).append(result)
    cells = []
    for (name, policy), each in grouped.items():
        values = {metric: over_seeds([result[metric] for result in each]) for metric in each[0]}
        cells.append(Cell(name, policy, len(each), values))
    return cells


def _tell(done: int, of: int, job: Job) -> None:
    if done == of or done % max(1, of // 50) == 0:
        print(f"{done} of {of} runs ({job.scenario}, {job.policy}, seed {job.seed})", file=sys.stderr, flush=True)
