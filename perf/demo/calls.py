"""The demo's calls: four held on one runtime, then the recordings spoken through the public address, eight at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from clients.conversation import CallResult, speak_and_listen
from clients.realtime import Call, CallFailed, CallRefused, connect
from perf.demo.script import Recording
from perf.fleet import LocalFleet

__all__ = ["HELD_CALLS", "WAVE", "DemoCall", "DemoRun", "make_calls"]

HELD_CALLS: Final = 4
WAVE: Final = 8
"""Calls at once through the balancer; also the least number of calls."""
_ANSWER_WITHIN_S: Final = 90.0
_QUIESCENCE_S: Final = 15.0


@dataclass(slots=True)
class DemoCall:
    """One call through the balancer and what became of it; `failure` is empty where it was answered."""

    recording: Recording
    session_id: str
    result: CallResult | None = None
    reason: str = ""
    failure: str = ""


@dataclass(slots=True)
class DemoRun:
    """`first_wave`: runtimes of the calls that were placed while the others were held. `fleet`: the last `/v1/fleet`."""

    calls: list[DemoCall]
    attempted: int = 0
    refused: int = 0
    held_runtime: str = ""
    first_wave: list[str] = field(default_factory=list)
    fleet: Any = None


async def make_calls(fleet: LocalFleet, recordings: Sequence[Recording], told: Callable[[str], None]) -> DemoRun:
    """Holds four calls on the first runtime, makes the others, hangs up, and waits until the books are quiet."""
    count = max(WAVE, len(recordings))
    calls = [DemoCall(recordings[index % len(recordings)], f"demo-{index + 1}") for index in range(count)]
    run = DemoRun(calls, held_runtime=str(fleet.runtimes[0].ready["runtime_id"]))
    async with AsyncExitStack() as stack:
        told(f"holding {HELD_CALLS} calls on {run.held_runtime}, not through the balancer")
        for number in range(HELD_CALLS):
            run.attempted += 1
            try:
                held = await stack.enter_async_context(connect(fleet.runtime_url(0), session_id=f"held-{number + 1}"))
                await held.send({"type": "session.update", "session": {"type": "realtime"}})
            except CallRefused:
                run.refused += 1
        await fleet.wait_for("the held calls in a report", lambda seen: _active(seen, run.held_runtime) == HELD_CALLS, 20.0)
        for start in range(0, count, WAVE):
            wave = calls[start : start + WAVE]
            told(f"calls {start + 1} to {start + len(wave)} of {count} through {fleet.public}")
            await _make_wave(fleet, run, wave, told)
            if start == 0:
                run.first_wave = [call.result.runtime_id for call in wave if call.result is not None]
    run.fleet = await fleet.wait_for("quiet books", _is_quiet, _QUIESCENCE_S)
    for call in calls:
        call.reason = await _reason(fleet, call.session_id)
    return run


async def _make_wave(fleet: LocalFleet, run: DemoRun, wave: Sequence[DemoCall], told: Callable[[str], None]) -> None:
    async with AsyncExitStack() as lines:
        # All are placed before the first speaks, so that the placement of each is decided beside the others.
        placed = [(call, await _dial(fleet, run, call, lines)) for call in wave]
        async with anyio.create_task_group() as group:
            for call, line in placed:
                if line is not None:
                    group.start_soon(_talk, call, line, told)


async def _dial(fleet: LocalFleet, run: DemoRun, call: DemoCall, lines: AsyncExitStack) -> Call | None:
    run.attempted += 1
    try:
        return await lines.enter_async_context(connect(fleet.call_url, session_id=call.session_id))
    except CallRefused as error:
        run.refused += 1
        call.failure = str(error)
    except CallFailed as error:
        call.failure = str(error)
    return None


async def _talk(call: DemoCall, line: Call, told: Callable[[str], None]) -> None:
    call.result = CallResult(line.session_id, line.runtime_id)
    name = f"{call.session_id} ({call.recording.name})"

    def happens(kind: str, _: str) -> None:
        if kind == "answers":
            told(f"{name}: {line.runtime_id} answers")

    try:
        call.result = await speak_and_listen(line, call.recording.samples, answer_within_s=_ANSWER_WITHIN_S, told=happens)
        told(f"{name}: complete")
    except CallFailed as error:
        call.failure = str(error)


async def _reason(fleet: LocalFleet, session_id: str) -> str:
    try:
        document = await fleet.document(f"/v1/calls/{session_id}")
    except OSError:
        return "no decision is known"
    return str((document.get("decision") or {}).get("reason", "no decision is known"))


def _active(fleet: Any, runtime_id: str) -> int:
    return sum(int(runtime["active"]) for runtime in fleet["runtimes"] if runtime["runtime_id"] == runtime_id)


def _is_quiet(fleet: Any) -> bool:
    totals, books = fleet["totals"], fleet["books"]
    return bool(totals["active"] == totals["reserved"] == totals["in_flight"] == books["active"] == 0 and books["balanced"])
