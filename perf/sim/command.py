"""`switchboard sim`: one scenario or many, one policy or all, over seeds; or a recorded log again (`--replay`)."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

from balancer.routing.journal_lines import BadJournal
from balancer.routing.policies import POLICIES
from perf.bench.machine import describe_machine
from perf.sim.goals import goals_of
from perf.sim.matrix import EXTRA_CHOOSERS, Cell, Job, run_jobs, summarise
from perf.sim.plot import draw
from perf.sim.replay import as_lines, replay
from perf.sim.scenarios import SCENARIOS
from perf.sim.statistics import random_expectation, report_floor
from perf.sim.tables import as_text
from perf.targets import as_json

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if chosen.replay is not None:
        return _replay(parser, chosen)
    scenarios = _names(parser, "--scenario", chosen.scenario, tuple(SCENARIOS))
    policies = _names(
        parser, "--policy", "session_aware" if chosen.policy is None else chosen.policy, (*POLICIES, *EXTRA_CHOOSERS)
    )
    if chosen.plot is not None and chosen.plot.suffix != ".png":
        parser.error(f"--plot is {chosen.plot}; allowed: a name that ends in .png")
    if chosen.plot is not None and not chosen.plot.absolute().parent.is_dir():
        parser.error(f"--plot is {chosen.plot}; its folder does not exist")
    if "ideal" not in policies:
        policies = ("ideal", *policies)
    measured_s = None if chosen.minutes is None else 60.0 * chosen.minutes
    jobs = [
        Job(scenario, policy, seed, chosen.runtimes, chosen.balancers, chosen.sessions, chosen.warm_up, measured_s)
        for scenario in scenarios
        for policy in policies
        for seed in range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    ]
    cells = summarise(jobs, run_jobs(jobs, min(chosen.processes, len(jobs))))
    made = {job.scenario: job.build() for job in jobs}
    targets = [goal for scenario in made.values() for goal in goals_of(scenario, cells)]
    is_ok = all(each.is_met for each in targets)  # rivals alone have no targets
    if chosen.plot is not None:
        draw(cells, chosen.plot)
    if chosen.json:
        document = {
            "ok": is_ok,
            "targets": as_json(targets),
            "cells": [_cell(each) for each in cells],
            "references": {
                name: {"random_expectation": round(random_expectation(each), 4), "report_floor": round(report_floor(each), 4)}
                for name, each in made.items()
            },
            "seeds": chosen.seeds,
            "first_seed": chosen.first_seed,
            "machine": describe_machine(),
            "plot": None if chosen.plot is None else str(chosen.plot),
        }
        print(json.dumps(document))
    else:
        print(as_text(made.values(), cells, targets))
    return 0 if is_ok else 1


def _replay(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> int:
    if chosen.policy is not None and chosen.policy not in POLICIES:
        parser.error(f"--policy is {chosen.policy!r}; allowed with --replay: one of " + ", ".join(POLICIES))
    try:
        with chosen.replay.open(encoding="utf-8", errors="replace", newline="\n") as lines:
            document = replay(lines, chosen.policy)
    except OSError as error:
        parser.error(f"--replay is {chosen.replay}: {error.strerror}")
    except BadJournal as bad:
        print(f"{parser.prog}: {chosen.replay}: {bad}", file=sys.stderr)
        return 2
    print(json.dumps(document) if chosen.json else as_lines(document))
    return 0 if document["ok"] else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="switchboard sim", description="Simulates fleets under the balancer's own router.")
    parser.add_argument("--scenario", default="steady", help="a name, several with commas, or `all`: " + ", ".join(SCENARIOS))
    parser.add_argument(
        "--policy",
        help="a name (default session_aware), several with commas, or `all`: " + ", ".join((*POLICIES, *EXTRA_CHOOSERS)),
    )
    parser.add_argument(
        "--replay",
        type=Path,
        metavar="LOG",
        help="a balancer's journal: decided again, or by another --policy, one step at a time",
    )
    parser.add_argument("--seeds", type=_between(1, 1000), default=3, help="runs of each, 1-1000 (default 3)")
    parser.add_argument("--first-seed", type=_between(0, 2**31), default=1, help="the first seed (default 1)")
    parser.add_argument("--runtimes", type=_between(2, 20_000), help="instead of the scenario's number, 2-20000")
    parser.add_argument("--balancers", type=_between(1, 256), help="instead of the scenario's number, 1-256")
    parser.add_argument("--sessions", type=_number(0.1, 10_000.0), help="mean sessions a runtime, 0.1-10000")
    parser.add_argument("--minutes", type=_number(0.1, 600.0), help="measured simulated minutes, 0.1-600")
    parser.add_argument("--warm-up", type=_number(0.0, 36_000.0), help="simulated seconds before, 0-36000")
    parser.add_argument("--processes", type=_between(1, 64), default=os.cpu_count() or 1, help="at a time (default: the cores)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draws max/mean and refusals by policy")
    return parser


def _between(least: int, most: int) -> Any:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r}; allowed: a whole number from {least} to {most}")
        return value

    return parse


def _number(least: float, most: float) -> Any:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r}; allowed: a number from {least:g} to {most:g}")
        return value

    return parse


def _names(parser: argparse.ArgumentParser, flag: str, text: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    if text == "all":
        return allowed
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in allowed:
            parser.error(f"{flag} has {name!r}; allowed: all, or " + ", ".join(allowed))
    return names


def _cell(cell: Cell) -> dict[str, Any]:
    values = {name: {"mean": _finite(each.mean), "half_width": _finite(each.half_width)} for name, each in cell.values.items()}
    return {"scenario": cell.scenario, "policy": cell.policy, "seeds": cell.seeds, "values": values}


def _finite(value: float) -> float | None:
    return None if math.isnan(value) or math.isinf(value) else round(value, 6)
