"""A live balancer's journal, replayed: bit-identical by its policy, a counterfactual by another, an error by line else."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from balancer.placement.errors import PlacementRefused
from balancer.placement.reservation import Door
from balancer.routing.journal_lines import BadJournal
from balancer.routing.policies import POLICIES
from balancer.routing.request import PlacementRequest, Priority
from perf.sim.command import main
from perf.sim.replay import replay
from tests.balancer.support.fake_runtime import FakeRuntime
from tests.balancer.support.journals import RecordedLife
from tests.balancer.support.running import running, until

pytestmark = pytest.mark.anyio


async def live(path: Path, **settings: object) -> None:
    """Real enrolments, reports, reservations, refusals, ends, a runtime that goes and one that comes, a change of policy."""
    runtimes = [FakeRuntime(f"r{number}", hard_limit=6) for number in range(3)]
    late = FakeRuntime("late", hard_limit=6)
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running(journal_file=str(path), cold_allowance=6, **settings))
        placer, view = service.balancer.placer, service.balancer.fleet.view
        for runtime in runtimes[:2]:
            await stack.enter_async_context(runtime.listening())
            await stack.enter_async_context(runtime.enrolling(service.control))
        await until(lambda: len(view) == 2 and all(row.arrived_ns is not None for row in view.rows()))

        async def place(name: str, priority: Priority = Priority.NORMAL) -> None:
            try:
                placement = await placer.place(PlacementRequest(name, priority=priority, agent="desk"), Door.RELAY)
            except PlacementRefused:
                return
            holder = next(each for each in (*runtimes, late) if each.runtime_id == placement.runtime_id)
            holder.tickets.pop(placement.ticket)
            await holder.start_leg(name, placement.epoch)

        async with runtimes[2].listening(), runtimes[2].enrolling(service.control):
            await until(lambda: len(view) == 3)
            async with anyio.create_task_group() as tasks:
                for number in range(24):
                    tasks.start_soon(place, f"c{number}", list(Priority)[number % 3])
        await stack.enter_async_context(late.listening())
        await stack.enter_async_context(late.enrolling(service.control))
        await until(lambda: "late" in view)
        for runtime in runtimes:
            for session in list(runtime.live)[:3]:
                await runtime.end_leg(session, "closed_by_caller")
        taken = service.balancer.fleet.reports.taken
        await until(lambda: service.balancer.fleet.reports.taken > taken + 6)
        for number in range(12):
            await place(f"c{number}")
        service.balancer.controls.use_policy("two_choices")
        for number in range(30, 36):
            await place(f"c{number}")


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines(keepends=True)


def called(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    status = main([*arguments, "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return status, found


async def test_a_live_run_is_decided_again_bit_by_bit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # R8
    path = tmp_path / "journal"
    await live(path)
    status, found = called(["--replay", str(path)], capsys)
    assert (status, found["ok"], found["first_difference"]) == (0, True, None)
    assert found["same_decisions"] == found["decisions"] >= 30
    assert found["log_policies"] == ["session_aware", "two_choices"]
    header = json.loads(lines_of(path)[0])
    assert len(header["settings"]) == 64
    assert main(["--replay", str(path)]) == 0
    assert capsys.readouterr().out.rstrip().endswith("ok")
    for policy in POLICIES:
        if policy != "session_aware":
            status, other = called(["--replay", str(path), "--policy", policy], capsys)
            assert (status, other["kind"], other["policy"]) == (0, "one-step counterfactual", policy)
            assert 0.0 <= other["first_choice_agrees"] <= 1.0
            assert 0 < other["compared"] <= found["decisions"]
            assert set(other["mean_load_of_choice"]) == {"log", "other"}


async def test_a_run_with_waiting_callers_and_learned_capacity_too(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    await live(path, waiting_places=4, waiting_timeout_s=0.3, policy="weighted_least_connection")
    lines = lines_of(path)
    assert any('"do":"look"' in line for line in lines)
    assert replay(lines)["ok"]


def tampered(number: int, old: str, new: str) -> list[str]:
    life = RecordedLife()
    life.live(300)
    return life.lines(lambda at, line: line.replace(old, new) if at == number else line)


def decision_of(lines: list[str]) -> int:
    return next(n for n, line in enumerate(lines, 1) if '"do":"decide"' in line and '"candidates":[["' in line)


def test_the_first_difference_is_named() -> None:
    number = decision_of(tampered(0, "", ""))
    found = replay(tampered(number, '"candidates":[["r', '"candidates":[["x'))
    assert not found["ok"]
    assert found["first_difference"]["line"] == number
    assert found["first_difference"]["log"][0][0].startswith("x")
    assert found["same_decisions"] == found["decisions"] - 1


def test_other_draws_are_a_difference() -> None:
    life = RecordedLife("random")
    life.live(300)
    lines = life.lines()
    number = decision_of(lines)
    entry = json.loads(lines[number - 1])
    while not entry["draws"]:  # one candidate needs no chance
        number = decision_of([*["\n"] * number, *lines[number:]])
        entry = json.loads(lines[number - 1])
    for draws in ([], [*entry["draws"], 0.5]):
        changed = list(lines)
        changed[number - 1] = json.dumps({**entry, "draws": draws}) + "\n"
        found = replay(changed)
        assert (found["ok"], found["first_difference"]["line"]) == (False, number)


def test_the_same_name_is_the_same_policy_and_another_agrees_as_chance_does() -> None:
    life = RecordedLife("random")
    life.live(2000)
    assert replay(life.lines(), "random")["kind"] == "same policy"
    other = replay(life.lines(), "session_aware")
    assert 0.0 < other["first_choice_agrees"] < 1.0
    assert other["mean_load_of_choice"]["other"] < other["mean_load_of_choice"]["log"]  # it looks where there is room
    assert "one-step counterfactual" in other["kind"]


@pytest.mark.parametrize(
    ("number", "line", "message"),
    [
        (9, '{"n":9,"do":"place","slot":400,"now_ns":1}\n', "line 9: does not follow from the lines before: slot 400 of 16"),
        (9, '{"n":9,"do":"place","slot":-1,"now_ns":1}\n', "line 9: does not follow from the lines before: slot -1 of 16"),
        (5, '{"n":5,"do":"place","slot":"one","now_ns":1}\n', "line 5: does not follow from the lines before"),
        (
            5,
            '{"n":5,"do":"bind","how":"__init__","session_id":"a","runtime_id":"b","now_ns":1}\n',
            "line 5: .*binding '__init__'",
        ),
        (5, '{"n":5,"do":"checkpoint","state":{}}\n', "line 5: does not follow from the lines before: 'view'"),
        (5, '{"n":5,"do":"use_policy","name":"magic"}\n', "policy is 'magic'"),
        (6, "garbage\n", "line 6: not JSON"),
    ],
)
def test_a_corrupt_line_is_named(number: int, line: str, message: str) -> None:
    life = RecordedLife()
    life.live(100)
    with pytest.raises(BadJournal, match=message) as bad:
        replay(life.lines(lambda at, was: line if at == number else was))
    assert bad.value.line == number


def test_the_command_says_what_is_wrong_and_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_bytes(bytes(range(256)) + b"\n")
    assert main(["--replay", str(foreign)]) == 2
    assert "foreign: line 1: not JSON" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--replay", str(tmp_path / "none")])
    assert "No such file" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--replay", str(foreign), "--policy", "ideal"])
    assert "allowed with --replay: one of session_aware" in capsys.readouterr().err
