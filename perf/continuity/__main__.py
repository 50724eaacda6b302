"""Calls that outlive the process that serves them: `python -m perf.continuity --mode kill --calls 10 --seed 1 --json`.

One balancer, one runtime that serves all the calls, and a second one that comes before the harm does (a deploy: two that serve,
and each is replaced in its turn). With `--relays` the balancer is a control and relays of their own. Each call has three turns;
the harm comes in the middle of the second, in every other call while the agent speaks and else while the caller does. All times
are the caller's: it plays the agent's audio as it comes, and a gap is where that runs dry. Numbered items, ten a second, are put
into the conversation around the harm and must each be acknowledged once. The agent's tool is not idempotent and leaves a line for
each time that it did its work. Up to ten calls have real speech and real models; above that the engines are synthetic.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import numpy as np
from numpy.typing import NDArray

from clients.realtime import RATE_HZ
from perf.bench.machine import ForeignCpu, describe_machine, wait_until_quiet
from perf.continuity.caller import Caller, Harm
from perf.continuity.harm import Mode, do_harm
from perf.continuity.lines import Client, Line, Opened, opening
from perf.continuity.namespace import NoNamespace
from perf.continuity.stage import Stage, stage
from perf.continuity.verdict import MovedCall, figures, targets_of
from perf.demo.script import OWN_RECORDINGS, read_recordings
from perf.processes import ProgramFailed
from perf.targets import all_met, as_json
from runtime.primitives.rng import SeededRng

_REAL_UP_TO: Final = 10
_MOST_CALLS: Final = 200
_SPREAD_S: Final = 2.0
_AHEAD_S: Final = 8.0
"""From the moment when all are ready to the harm: longer than the longest recording and the agent's first words."""
_READY_WITHIN_S: Final = 180.0
_QUIET_WAIT_S: Final = 20.0
_NOISY_CORES: Final = 0.15
_LONGEST_RECORDING_S: Final = 6.0


def _speech(is_real: bool) -> list[NDArray[np.int16]]:
    if is_real:
        recordings = [recording.samples for recording in read_recordings(OWN_RECORDINGS)]
        return [samples for samples in recordings if len(samples) <= _LONGEST_RECORDING_S * RATE_HZ] or recordings[:1]
    tone = np.where(np.arange(2 * RATE_HZ) // 24 % 2, 8_000, -8_000).astype(np.int16)
    return [tone]


async def measure(
    mode: Mode, client: Client, calls: int, seed: int, relays: int, runtime_arguments: list[str], told: Callable[[str], None]
) -> dict[str, Any]:
    """Raises ProgramFailed, NoNamespace or OSError."""
    is_real = calls <= _REAL_UP_TO
    arguments = runtime_arguments if is_real else ["--engines", "synthetic", *runtime_arguments]
    async with AsyncExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="switchboard-continuity-")))
        whole = await stack.enter_async_context(
            stage(
                logs,
                calls=calls,
                relays=relays,
                has_network=mode is Mode.PARTITION,
                runtime_arguments=arguments,
                told=told,
            )
        )
        if mode is Mode.DEPLOY:
            await whole.add_runtime()
        opened = await stack.enter_async_context(opening(client, whole.front.ready, whole.pids))
        is_quiet = await wait_until_quiet(time.perf_counter, whole.pids, _NOISY_CORES, _QUIET_WAIT_S)
        told(f"{calls} calls, {'real speech and models' if is_real else 'synthetic engines'}" + ("" if is_quiet else "; noisy"))
        with ForeignCpu(time.perf_counter, whole.pids) as foreign:
            found = await _calls(mode, opened, calls, seed, _speech(is_real), whole, told)
    targets = targets_of(mode, found)
    return {
        "ok": all_met(targets),
        "targets": as_json(targets),
        "client": client.value,
        **found,
        "relays": relays,
        "engines": "models" if is_real else "synthetic",
        "foreign_cpu_cores": foreign.cores,
        "noisy": foreign.cores is None or foreign.cores > _NOISY_CORES,
        "seed": seed,
        "runtime_arguments": runtime_arguments,
        "machine": describe_machine(),
    }


async def _calls(
    mode: Mode,
    opened: Opened,
    calls: int,
    seed: int,
    speech: list[NDArray[np.int16]],
    whole: Stage,
    told: Callable[[str], None],
) -> dict[str, Any]:
    harm, rng = Harm(), SeededRng(seed)
    callers = [Caller(speech[number % len(speech)], bool(number % 2), harm) for number in range(calls)]
    async with anyio.create_task_group() as group:
        for number, caller in enumerate(callers):
            group.start_soon(_begin, caller, rng.random() * _SPREAD_S, partial(opened, f"call-{number}"))
        with anyio.fail_after(_READY_WITHIN_S):
            for caller in callers:
                await caller.is_ready.wait()
        told("first turns are over")
        if mode is not Mode.DEPLOY:
            await whole.add_runtime()
        harm.at_s = anyio.current_time() + _AHEAD_S
        harm.is_set.set()
        await anyio.sleep_until(harm.at_s)
        began_s = anyio.current_time()
        wall_s = time.time()  # noqa: TID251  # the balancer's log has the time of day
        told(f"{mode.value}")
        sessions = [caller.session_id for caller in callers if not caller.failure]
        await do_harm(mode, whole, sessions)
        harm_took_s = anyio.current_time() - began_s
        told(f"done after {harm_took_s:.2f} s; second and third turns go on")
    effects = [line.split()[0] for line in whole.effects.read_text().splitlines()]
    moves = [move for log in whole.move_logs for move in _moves(log, wall_s)]
    return figures(mode, callers, moves, effects, harm_took_s, has_words=len(speech) > 1)


async def _begin(caller: Caller, after_s: float, opened: Callable[[], AbstractAsyncContextManager[Line]]) -> None:
    await anyio.sleep(after_s)
    await caller.run(opened)


def _moves(log: Path, harm_wall_s: float) -> list[MovedCall]:
    """The balancer's own account of each move."""
    moves = []
    for line in log.read_text(errors="replace").splitlines():
        said = json.loads(line) if line.startswith("{") else {}
        if said.get("event") == "move ended":
            ended_s = datetime.fromisoformat(said["timestamp"]).timestamp() - harm_wall_s
            moves.append(MovedCall(said["session_id"], said["result"], ended_s, said["ms"] / 1_000))
    return moves


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _MOST_CALLS):
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: 1 to {_MOST_CALLS}")
    return int(text)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.continuity", description="Calls that outlive their runtime, measured.")
    parser.add_argument("--mode", type=Mode, choices=list(Mode), required=True, help="what is done to the runtime")
    parser.add_argument("--client", type=Client, choices=list(Client), default=Client.REALTIME, help="who calls, on which wire")
    parser.add_argument("--calls", type=_count, default=10, help=f"calls at once, 1 to {_MOST_CALLS} (default 10)")
    parser.add_argument("--seed", type=int, default=1, help="seed of who calls when (default 1)")
    parser.add_argument("--relays", type=int, choices=range(9), default=0, help="relays of their own, 0 to 8 (default 0)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--runtime", action="append", default=[], metavar="ARG", help="a further argument for the runtimes")
    arguments = parser.parse_args()
    needs_relays = arguments.mode in (Mode.CONTROL, Mode.BLACKOUT)
    relays = arguments.relays or (2 if needs_relays else 0)

    def told(text: str) -> None:
        print(f"continuity: {text}", file=sys.stderr)

    try:
        what = (arguments.mode, arguments.client, arguments.calls, arguments.seed, relays, arguments.runtime)
        result = anyio.run(measure, *what, told)
    except (ProgramFailed, NoNamespace, OSError) as error:
        message = " ".join(str(error).split())
        told(message)
        if arguments.json:
            print(json.dumps({"ok": False, "reason": message, "targets": []}))
        return 1
    if arguments.json:
        print(json.dumps(result))
    else:
        gap, resumed = result["audio_gap_ms"], result["resumed_ms"]
        print(
            f"{result['mode']}: {result['calls_lost']} of {result['calls']} calls lost; "
            f"audio gap P50 {gap['p50']}, P99 {gap['p99']} ms; "
            f"moved after P50 {resumed['p50']}, P99 {resumed['p99']} ms; messages lost {result['messages_lost']}, twice "
            f"{result['messages_twice']}; effects twice {result['effects_twice']}"
        )
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
