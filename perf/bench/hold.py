"""Many callers for long: `python -m perf.bench.hold --idle 5000 --talking 200 --seconds 600 --json`.

One balancer and two runtimes as processes (synthetic engines). Every call goes through the relay; a hundred are dialled a second,
the idle ones first. Those are silent after their first message; the others say a second of sound, hear the answer, rest, and so
on, their microphones open all the time. At the end every call must still be there and answer a question, and what the processes
hold must not have grown: the memory at the end beside that after a quarter of the time, when all are there and everything has
been used once; each as the median of a tenth of the time, since what an allocator holds goes up and down by some percent.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio
import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from clients.realtime import RATE_HZ
from perf.bench.machine import ForeignCpu, describe_machine, process_rss_bytes
from perf.fleet import LocalFleet, local_fleet
from perf.percentile import percentile
from perf.processes import ProgramFailed
from perf.targets import Target, all_met, as_json
from runtime.primitives.rng import SeededRng

_RUNTIMES: Final = 2
_PACKET_S: Final = 0.1
_SPEECH_PACKETS: Final = 10
_REST_PACKETS: Final = 80
_ANSWER_WITHIN_S: Final = 60.0
_DIALLED_PER_S: Final = 100.0
_ASKED_AT_THE_END_PER_S: Final = 500.0
"""The silent ones; all at once would be a load of its own."""
_GROWTH: Final = 0.05
_SAMPLE_S: Final = 5.0
_HELLO: Final = json.dumps({"type": "session.update", "session": {"type": "realtime"}})


@dataclass(slots=True)
class _Tally:
    open: int = 0
    refusals: int = 0
    turns_asked: int = 0
    turns_answered: int = 0
    waits_s: list[float] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)
    rss_mib: list[tuple[float, ...]] = field(default_factory=list)


@dataclass(slots=True)
class _Party:
    """What all callers share: where to dial, how many at once, when all of them are there or lost, and when all have to answer a
    last question."""

    url: str
    calls: int
    tally: _Tally
    is_complete: anyio.Event = field(default_factory=anyio.Event)
    is_over: anyio.Event = field(default_factory=anyio.Event)

    def lose(self, why: str) -> None:
        self.tally.lost[why[:200]] += 1
        self.count()

    def count(self) -> None:
        if self.tally.open + self.tally.lost.total() >= self.calls:
            self.is_complete.set()


def _packet(level: int) -> str:
    samples = np.where(np.arange(int(RATE_HZ * _PACKET_S)) // 24 % 2, level, -level).astype("<i2")
    return json.dumps({"type": "input_audio_buffer.append", "audio": b64encode(samples.tobytes()).decode()})


_SOUND: Final = _packet(8_000)
_SILENCE: Final = _packet(0)


async def _call(party: _Party, number: int, is_talking: bool, rest_s: float) -> None:
    """One call from its first message to its answer at the end; what goes wrong is counted."""
    await anyio.sleep(number / _DIALLED_PER_S)
    try:
        async with await _dial(party) as line:
            await line.send(_HELLO)
            await _until(line, "session.updated")
            party.tally.open += 1
            party.count()
            if is_talking:
                await _talk(line, party, rest_s)
            else:
                await party.is_over.wait()
                await anyio.sleep(number / _ASKED_AT_THE_END_PER_S)
            await line.send(_HELLO)
            await _until(line, "session.updated")
    except* InvalidStatus as refused:
        bodies = [each.response.body.decode() for each in refused.exceptions if isinstance(each, InvalidStatus)]
        party.lose(f"refused: {bodies}")
    except* (WebSocketException, OSError, TimeoutError) as failed:
        party.lose(str(failed.exceptions))


async def _dial(party: _Party) -> ClientConnection:
    """Whoever is told that there is no place now asks again when told to. Raises InvalidStatus, OSError or TimeoutError."""
    give_up_s = anyio.current_time() + _ANSWER_WITHIN_S
    while True:
        try:
            return await connect(
                party.url, ping_interval=None, max_size=None, proxy=None, compression=None, open_timeout=_ANSWER_WITHIN_S
            )
        except InvalidStatus as refused:
            wait_s = refused.response.headers.get("retry-after")
            if wait_s is None or anyio.current_time() + float(wait_s) > give_up_s:
                raise
            party.tally.refusals += 1
            await anyio.sleep(float(wait_s))


async def _until(line: ClientConnection, kind: str) -> None:
    """Raises TimeoutError or WebSocketException."""
    wanted = f'"{kind}"'
    with anyio.fail_after(_ANSWER_WITHIN_S):
        async for message in line:
            if isinstance(message, str) and wanted in message[:200]:
                return
    raise TimeoutError(f"closed with {line.close_code} before {kind}")


async def _talk(line: ClientConnection, party: _Party, rest_s: float) -> None:
    """After a rest turns until all is over; the one that is being answered then is waited for."""

    async def microphone() -> None:
        began_s = anyio.current_time()
        sent = 0
        while True:
            await line.send(_SOUND if words else _SILENCE)
            if words:
                words.pop()
            sent += 1
            await anyio.sleep_until(began_s + sent * _PACKET_S)

    words: list[None] = []
    async with anyio.create_task_group() as group:
        group.start_soon(microphone)
        await anyio.sleep(rest_s)
        while not party.is_over.is_set():
            words += [None] * _SPEECH_PACKETS
            party.tally.turns_asked += 1
            asked_s = anyio.current_time() + _SPEECH_PACKETS * _PACKET_S
            await _until(line, "response.output_audio.delta")
            party.tally.waits_s.append(anyio.current_time() - asked_s)
            await _until(line, "response.done")
            party.tally.turns_answered += 1
            await anyio.sleep(_REST_PACKETS * _PACKET_S)
        group.cancel_scope.cancel()


async def measure(idle: int, talking: int, seconds: float, seed: int, told: Callable[[str], None]) -> dict[str, Any]:
    """Raises ProgramFailed or OSError."""
    calls, rng = idle + talking, SeededRng(seed)
    limits = ["--hard-limit", str(calls), "--inflow-depth", str(calls), "--inflow-ramp-s", "0"]
    for_long = ["--idle-s", str(10 * seconds + 600), "--maximum-s", str(10 * seconds + 600)]
    ports = ["--public-port", "0", "--operator-port", "0", "--control-port", "0", "--cold-allowance", str(calls)]
    with tempfile.TemporaryDirectory(prefix="switchboard-hold-") as folder:
        async with local_fleet(
            _RUNTIMES,
            Path(folder),
            balancer_arguments=ports,
            runtime_arguments=["--engines", "synthetic", *limits, *for_long],
            told=told,
        ) as fleet:
            party = _Party(fleet.call_url, calls, _Tally())
            pids = [fleet.balancer.pid, *(runtime.pid for runtime in fleet.runtimes)]
            with ForeignCpu(time.perf_counter, pids) as foreign:
                async with anyio.create_task_group() as group:
                    for number in range(calls):
                        group.start_soon(_call, party, number, number >= idle, rng.random() * _REST_PACKETS * _PACKET_S)
                    books = await _hold(party, fleet, pids, seconds, told)
    targets, figures = _verdict(party.tally, calls, books)
    return {
        "ok": all_met(targets),
        "targets": as_json(targets),
        "calls": {"idle": idle, "talking": talking, "seconds": seconds},
        **figures,
        "foreign_cpu_cores": foreign.cores,
        "noisy": foreign.cores is None or foreign.cores > 0.15,
        "seed": seed,
        "machine": describe_machine(),
    }


async def _hold(party: _Party, fleet: LocalFleet, pids: list[int], seconds: float, told: Callable[[str], None]) -> int:
    """Returns how many calls the balancer had in its books at the end."""
    tally = party.tally
    with anyio.fail_after(_ANSWER_WITHIN_S + party.calls / 20):
        await party.is_complete.wait()
    told(f"{tally.open} calls are there; for {seconds:g} s")
    began_s = anyio.current_time()
    while anyio.current_time() < began_s + seconds:
        tally.rss_mib.append(tuple(process_rss_bytes(pid) / 2**20 for pid in pids))
        if len(tally.rss_mib) % 12 == 0:
            told(f"{anyio.current_time() - began_s:.0f} s, {tally.turns_answered} turns, MiB {_rounded(tally.rss_mib[-1])}")
        await anyio.sleep(min(_SAMPLE_S, seconds / 8))
    books = int((await fleet.document("/v1/fleet"))["books"]["active"])
    party.is_over.set()
    return books


def _rounded(values: tuple[float, ...]) -> list[float]:
    return [round(value, 1) for value in values]


def _verdict(tally: _Tally, calls: int, books: int) -> tuple[list[Target], dict[str, Any]]:
    samples = len(tally.rss_mib)
    early = _median(tally.rss_mib[samples // 5 : samples // 5 + max(1, samples // 10)])
    last = _median(tally.rss_mib[-max(1, samples // 10) :])
    growth = max((after - before) / before for before, after in zip(early, last, strict=True))
    waits_s = [round(wait_s, 3) for wait_s in tally.waits_s]
    unanswered = tally.turns_asked - tally.turns_answered
    targets = [
        Target("calls_lost", tally.lost.total(), "calls", "==", 0),
        Target("calls_in_the_books", books, "calls", "==", calls),
        Target("turns_unanswered", unanswered, "turns", "==", 0),
        Target("memory_growth_of_a_process", round(growth, 4), "share", "<=", _GROWTH),
    ]
    return targets, {
        "lost": dict(tally.lost),
        "refusals_before_a_place": tally.refusals,
        "turns_answered": tally.turns_answered,
        "answer_s": {f"p{q}": percentile(waits_s, q / 100) for q in (50, 95, 99)},
        "rss_mib": {"balancer_then_runtimes_early": _rounded(early), "at_the_end": _rounded(last)},
    }


def _median(samples: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(statistics.median(column) for column in zip(*samples, strict=True))


def _at_least_one(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 8_000):
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: 1 to 8000")
    return int(text)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.bench.hold", description="Many calls held for long, through the relay.")
    parser.add_argument("--idle", type=_at_least_one, default=5_000, help="callers who say nothing, 1 to 8000 (default 5000)")
    parser.add_argument("--talking", type=_at_least_one, default=200, help="callers who talk, 1 to 8000 (default 200)")
    parser.add_argument("--seconds", type=_at_least_one, default=600, help="how long all are held, 1 to 8000 s (default 600)")
    parser.add_argument("--seed", type=int, default=1, help="seed of who speaks when (default 1)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()

    def told(text: str) -> None:
        print(f"hold: {text}", file=sys.stderr, flush=True)

    try:
        result = anyio.run(measure, arguments.idle, arguments.talking, float(arguments.seconds), arguments.seed, told)
    except (ProgramFailed, OSError) as error:
        message = " ".join(str(error).split()) or type(error).__name__
        told(message)
        if arguments.json:
            print(json.dumps({"ok": False, "reason": message, "targets": []}))
        return 1
    if arguments.json:
        print(json.dumps(result))
    else:
        for target in result["targets"]:
            met = "" if target["ok"] else ": MISSED"
            print(f"{target['name']}: {target['value']} {target['unit']} ({target['target']}{met})")
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
