"""The leak gate: thousands of short calls on both wires leave a runtime's memory where it was."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest

from perf.bench.machine import process_rss_bytes
from perf.faults.callers import Callers, Doors
from perf.faults.journal import Journal
from perf.faults.plan import Connection, Door, Ending, Outcome, Wire
from perf.processes import running

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.anyio, pytest.mark.timeout(400)]

_WARM_UP = 1_000
_CALLS = 5_000
_AT_ONCE = 32


@pytest.mark.usefixtures("from_wheel")
async def test_five_thousand_short_calls_grow_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # bug class: memory
    arguments = [
        "--engines",
        "synthetic",
        "--inflow-depth",
        "1000000",
        "--inflow-ramp-s",
        "0",
        "--hard-limit",
        "1000",
        "--log-level",
        "warning",
    ]
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(running("runtime", "runtime", arguments, log=tmp_path / "runtime.log"))
        ready = await runtime.wait_ready()
        doors = Doors(["r"], [str(ready["http"]).removeprefix("http://")], [str(ready["grpc"])], "")
        journal = Journal(anyio.current_time)
        callers = await stack.enter_async_context(Callers(doors, journal, stay_s=0.0))

        async def call_many(first: int, count: int) -> None:
            numbers = iter(range(first, first + count))

            async def one_after_the_other() -> None:
                for number in numbers:
                    wire = Wire.GRPC if number % 3 == 0 else Wire.WEBSOCKET
                    connection = Connection(f"m-{number}", wire, Door.DIRECT, Ending.CLOSE, 0)
                    assert await callers.make(journal.open(connection)) is Outcome.STARTED

            async with anyio.create_task_group() as group:
                for _ in range(_AT_ONCE):
                    group.start_soon(one_after_the_other)

        await call_many(0, _WARM_UP)
        before = process_rss_bytes(runtime.pid)
        await call_many(_WARM_UP, _CALLS)
        grown_mb = (process_rss_bytes(runtime.pid) - before) / 1e6
        with capsys.disabled():
            sys.stdout.write(f"\nmemory: {grown_mb:.1f} MB more after {_CALLS} calls more\n")
        assert grown_mb < 5.0, f"{grown_mb:.1f} MB more after {_CALLS} calls"
