"""docs/simulation.md: the full matrix and the large fleets, with tables and pictures. `make sim`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from balancer.routing.policies import POLICIES
from perf.bench.machine import describe_machine
from perf.sim.goals import goals_of
from perf.sim.matrix import EXTRA_CHOOSERS, Job, run_jobs, summarise
from perf.sim.plot import draw
from perf.sim.scenarios import SCENARIOS
from perf.sim.tables import as_text

__all__ = ["main"]

_LEADING: Final = ("session_aware", "local_least_connections", "two_choices", "random")
_LARGE: Final = ("steady", "burst")
_HEAD: Final = """# What the simulator shows

Made by `make sim`{arguments}; do not edit. {machine}, commit {commit}, {minutes:.0f} minutes, {cpu_minutes:.0f} of CPU.

The simulator (`perf/sim`) drives the router that the live balancer runs: the same view, filters, policies, second look and
inflow bucket. Callers, talk, CPU, reports and their delays are made up, seeded, and the same for every policy. `ideal` is one
chooser with perfect knowledge of what is held, what it costs and what fits, under the same overload thresholds. Values are means
over seeds with their 95 % intervals. Load is cost over capacity; max/mean its time average.

- *overload*: placed where the committed utilisation is above 0.8 while another eligible runtime was below 0.75
- *late*: session-seconds at a utilisation above 0.95
- *start-up*: in percentiles a refusal counts as the worst start-up
- *inflow*: most starts of a restarted runtime in 30 s over its fair share
- *calls/start*: reservations asked for a started session

A policy without capacity rules refuses nobody below the hard limit: read its refusals beside its late audio.
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.sim.document", description="Writes docs/simulation.md.")
    parser.add_argument("--seeds", type=int, default=5, help="of the full matrix (default 5)")
    parser.add_argument("--large-seeds", type=int, default=3, help="of the large fleets; 0: leave them out (default 3)")
    parser.add_argument("--runtimes", type=int, help="of the full matrix, instead of 100")
    parser.add_argument("--output", type=Path, default=Path("docs/simulation.md"))
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args(arguments)
    if chosen.seeds < 1 or chosen.large_seeds < 0 or chosen.processes < 1:
        parser.error("--seeds and --processes: at least 1; --large-seeds: at least 0")
    if not chosen.output.absolute().parent.is_dir():
        parser.error(f"--output is {chosen.output}; its folder does not exist")
    began_s = time.perf_counter()
    full = [Job(scenario, policy, 0, chosen.runtimes) for scenario in SCENARIOS for policy in (*EXTRA_CHOOSERS, *POLICIES)]
    large = [
        Job(scenario, policy, 0, 1000, 8, 50.0 if scenario == "steady" else 15.0, 200.0, 600.0)
        for scenario in _LARGE
        for policy in ("ideal", *_LEADING)
    ]
    parts = (
        Part("Every policy in every scenario", full, chosen.output.with_name(f"{chosen.output.stem}-matrix.png")),
        Part("Large fleets: 1,000 runtimes, 8 balancers", large, chosen.output.with_name(f"{chosen.output.stem}-large.png")),
    )
    # Seed by seed over all, so that what was interrupted is still a whole document of fewer seeds.
    for seed in range(1, max(chosen.seeds, chosen.large_seeds) + 1):
        for part, seeds in zip(parts, (chosen.seeds, chosen.large_seeds), strict=True):
            if seed <= seeds:
                jobs = [replace(job, seed=seed) for job in part.jobs]
                part.done += jobs
                part.results += run_jobs(jobs, chosen.processes)
                _write(chosen.output, parts, (time.perf_counter() - began_s) / 60.0)
    print(f"wrote {chosen.output}", file=sys.stderr)
    return 0


@dataclass(slots=True)
class Part:
    title: str
    jobs: list[Job]
    picture: Path
    done: list[Job] = field(default_factory=list)
    results: list[dict[str, float]] = field(default_factory=list)


def _write(output: Path, parts: Sequence[Part], minutes: float) -> None:
    head = _HEAD.format(
        arguments="" if len(sys.argv) < 2 else " ARGS=`" + " ".join(sys.argv[1:]) + "`",
        machine=describe_machine()["cpu"],
        commit=_commit(),
        minutes=minutes,
        cpu_minutes=_cpu_minutes(),
    )
    output.write_text(head + "\n" + "\n".join(_text(part) for part in parts if part.done))


def _text(part: Part) -> str:
    cells = summarise(part.done, part.results)
    made = {job.scenario: job.build() for job in part.jobs}
    targets = [goal for each in made.values() for goal in goals_of(each, cells)]
    draw(cells, part.picture)
    met = sum(each.is_met for each in targets)
    goals = "\n".join(
        f"| {each.name} | {'nothing' if each.value is None else f'{each.value:.4g}'} | {each.relation} {each.bound:.4g} "
        f"{each.unit} | {'met' if each.is_met else '**missed**'} |"
        for each in targets
    )
    tables = as_text(made.values(), cells, []).strip()
    return (
        f"## {part.title}\n\n{cells[0].seeds} seeds. {met} of {len(targets)} targets met.\n\n"
        f"| target | value | wanted | |\n|---|---|---|---|\n{goals}\n\n"
        f"![max/mean by policy]({part.picture.name})\n\n{tables}\n"
    )


def _cpu_minutes() -> float:
    """Of this process and of those it waited for."""
    used = os.times()
    return (used.user + used.system + used.children_user + used.children_system) / 60.0


def _commit() -> str:
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
