"""A balancer and some runtimes as real processes on this machine, and what the balancer says of them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio

from perf.processes import Program, ProgramFailed, running

__all__ = ["LocalFleet", "get_json", "local_fleet"]

_POLL_S: Final = 0.1


def get_json(url: str) -> Any:
    """GETs a JSON document of a local process; blocks, so call it in a thread. Raises OSError."""
    with urllib.request.urlopen(url, timeout=10.0) as answer:
        return json.load(answer)


@dataclass(frozen=True, slots=True)
class LocalFleet:
    """`public` and `operator` are http://host:port of the balancer."""

    balancer: Program
    runtimes: list[Program]
    public: str
    operator: str

    @property
    def call_url(self) -> str:
        return self.public.replace("http", "ws", 1) + "/v1/realtime"

    def runtime_url(self, index: int) -> str:
        """Where runtime `index` takes callers directly."""
        return str(self.runtimes[index].ready["http"]).replace("http://", "ws://") + "/v1/realtime"

    async def document(self, path: str) -> Any:
        """A JSON document of the operator port, for example `/v1/fleet`."""
        return await anyio.to_thread.run_sync(get_json, self.operator + path)

    async def wait_for(self, what: str, condition: Callable[[Any], bool], within_s: float) -> Any:
        """Looks at `/v1/fleet` until the condition holds, and answers it. Raises ProgramFailed after `within_s`."""
        fleet: Any = None
        with anyio.move_on_after(within_s):
            while True:
                try:
                    fleet = await self.document("/v1/fleet")
                except (OSError, urllib.error.URLError) as error:
                    raise ProgramFailed(f"the balancer does not answer while waiting for {what}: {error}") from error
                if condition(fleet):
                    return fleet
                await anyio.sleep(_POLL_S)
        raise ProgramFailed(f"{what}: not within {within_s:g} s; the fleet: {json.dumps(fleet)[:600]}")


@asynccontextmanager
async def local_fleet(
    runtimes: int,
    logs: Path,
    *,
    balancer_arguments: list[str],
    runtime_arguments: list[str],
    told: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[LocalFleet]:
    """Starts one balancer and `runtimes` runtimes side by side, waits until all may be placed on, and ends them all."""
    async with AsyncExitStack() as stack:
        told("starting the balancer")
        balancer = await stack.enter_async_context(running("balancer", "balancer", balancer_arguments, log=logs / "balancer.log"))
        control = str((await balancer.wait_ready())["control"])
        told(f"starting {runtimes} runtimes; each loads its models")
        programs = []
        for number in range(1, runtimes + 1):
            name = f"runtime-{number}"
            own = ["--runtime-id", name, "--balancers", control, "--cpu-share", str(1 / runtimes), *runtime_arguments]
            programs.append(await stack.enter_async_context(running(name, "runtime", own, log=logs / f"{name}.log")))
        for program in programs:
            await program.wait_ready()
            told(f"{program.name} is ready")
        fleet = LocalFleet(balancer, programs, str(balancer.ready["public"]), str(balancer.ready["operator"]))
        await fleet.wait_for("all runtimes eligible", lambda seen: seen["totals"]["eligible"] == runtimes, 30.0)
        yield fleet
