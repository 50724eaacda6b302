"""A whole runtime in this process on loopback, with synthetic engines; alone, or enrolled at a whole balancer."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from balancer.telemetry.logs import make_logger
from runtime.app.serve import Runtime
from runtime.app.settings import RuntimeSettings
from runtime.app.wiring import Parts, wire
from runtime.dialogue.agent import Agent, Json, Turn
from runtime.engines.synthetic import SettableRecognizer, synthetic_engines
from runtime.primitives.reasons import EndReason
from runtime.session.ledger import Ledger
from runtime.transport.http_server import listen
from tests.balancer.support.running import Running, running
from tests.support.call_parts import ScriptedAgent, tool

__all__ = ["DESK", "Enrolled", "LocalRuntime", "enrolled_runtime", "local_runtime", "open_files", "until"]

DESK = "desk"
_QUICK = RuntimeSettings(
    engines="synthetic",
    drain_timeout_s=0.0,
    guard_utilisation=1_000.0,  # the test machine's own load is no reason to refuse
    guard_lag_ms=600_000.0,
    inflow_depth=1_000,
    inflow_ramp_s=0.0,
    lead_ms=5_000,
)


async def until(fact: Callable[[], bool], within_s: float = 20.0) -> None:
    """Returns as soon as `fact` holds; fails when it does not in time. Looks between any two steps of the event loop."""
    with anyio.fail_after(within_s):
        while not fact():  # noqa: ASYNC110  # facts of many objects, most without an event of their own
            await anyio.sleep(0.005)


@dataclass(frozen=True)
class LocalRuntime:
    """`hears`: set its `answer` to decide what the next utterance is taken for."""

    runtime: Runtime
    hears: SettableRecognizer
    log: io.StringIO
    left: anyio.Event

    @property
    def parts(self) -> Parts:
        return self.runtime.parts

    @property
    def ledger(self) -> Ledger:
        return self.parts.ledger

    @property
    def url(self) -> str:
        return f"ws://{self.runtime.http_address}/v1/realtime"

    @property
    def ended(self) -> Mapping[str, int]:
        """Sessions that ended, by reason."""
        return self.ledger.totals.ended

    async def until_ended(self, reason: EndReason, count: int = 1) -> None:
        await until(lambda: sum(self.ended.values()) == count)
        assert dict(self.ended) == {reason: count}

    async def until_empty(self) -> None:
        await until(lambda: self.ledger.active == self.ledger.reserved == 0)


def desk() -> ScriptedAgent:
    """Looks in the book where the turn names it; otherwise says the turn back."""

    async def look(arguments: Mapping[str, Json], _: str) -> Json:
        return {"free": arguments["people"]}

    async def answer(turn: Turn) -> AsyncIterator[str]:
        if "book" in turn.text:
            found = await turn.call_tool("look", {"people": 4})
            yield f"Found {found}."
        elif "client" in turn.text:
            found = await turn.call_tool("client_look", {"people": 4})
            yield f"The client found {found}."
        elif "bye" in turn.text:
            turn.end_call()
            yield "Goodbye."
        elif "reception" in turn.text:
            turn.transfer("reception")
            yield "One moment."
        elif "long" in turn.text:
            yield "This is a long answer that goes on and on. " * 200
        else:
            yield f"You said: {turn.text}."

    agent = ScriptedAgent(answer, [tool("look", look)])
    agent.name = DESK
    return agent


@asynccontextmanager
async def local_runtime(agent: Agent | None = None, **changes: Any) -> AsyncIterator[LocalRuntime]:
    """Serves until the block ends, then drains. `changes` are fields of the settings.

    Fails where anything was reported to the event loop's exception handler: a fault that nobody handled.
    """
    settings = replace(_QUICK, **changes)
    hears = SettableRecognizer("good morning")
    log = io.StringIO()
    logger = make_logger(log, "debug")
    faults: list[str] = []
    loop = asyncio.get_running_loop()
    earlier = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: faults.append(repr(context)))
    try:
        with listen(settings.http_host, settings.http_port) as listener:
            parts = wire(settings, agent or desk(), synthetic_engines(recognizer=hears), listener.getsockname()[1], logger)
            local = LocalRuntime(Runtime(parts, listener, logger), hears, log, anyio.Event())
            ready = anyio.Event()

            async def run() -> None:
                await local.runtime.run(ready.set)
                local.left.set()

            async with anyio.create_task_group() as group:
                group.start_soon(run)
                with anyio.fail_after(20):
                    await ready.wait()
                try:
                    yield local
                finally:
                    local.runtime.leave()
                    with anyio.fail_after(20, shield=True):
                        await local.left.wait()
    finally:
        loop.set_exception_handler(earlier)
    assert not faults, faults


@dataclass(frozen=True)
class Enrolled:
    local: LocalRuntime
    service: Running


@asynccontextmanager
async def enrolled_runtime(
    balancer: Mapping[str, Any] | None = None, agent: Agent | None = None, **changes: Any
) -> AsyncIterator[Enrolled]:
    """A runtime behind a balancer that has its report and would place there. `balancer`: fields of the balancer's settings."""
    async with running(**(balancer or {})) as service:
        view = service.balancer.fleet.view
        async with local_runtime(agent, balancers=(service.control,), **changes) as local:
            await until(lambda: len(view) == 1 and view.row(0).arrived_ns is not None)
            yield Enrolled(local, service)


def open_files() -> set[str]:
    """What this process holds open, by number and kind."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(f"{entry.name} {entry.readlink()}")
    return found
