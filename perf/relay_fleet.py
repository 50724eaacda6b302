"""A control, relays that share one public port, and runtimes, as real processes on this machine; the control can be restarted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from perf.fleet import LocalFleet
from perf.processes import Program, running

__all__ = ["RelayFleet", "relay_fleet", "start_control", "start_relays"]


async def start_control(stack: AsyncExitStack, logs: Path, arguments: list[str], before: Program | None = None) -> Program:
    """Ready when it returns. `before`: one that was killed, whose ports it takes over."""
    ports = ["--operator-port", "0", "--control-port", "0"]
    if before is not None:
        ports = ["--operator-port", _port(before.ready["operator"]), "--control-port", _port(before.ready["control"])]
    name = f"control-{1 if before is None else int(before.name.rpartition('-')[2]) + 1}"
    own = ["--role", "control", *ports, *arguments]
    control = await stack.enter_async_context(running(name, "balancer", own, log=logs / f"{name}.log"))
    await control.wait_ready()
    return control


async def start_relays(stack: AsyncExitStack, count: int, control: Program, logs: Path, arguments: list[str]) -> list[Program]:
    """All on one port, which the system chose for the first; ready when it returns."""
    relays: list[Program] = []
    for number in range(1, count + 1):
        name = f"relay-{number}"
        first = relays[0].ready if relays else {"public": ":0", "public_grpc": ":0"}
        ports = [
            "--public-port",
            _port(first["public"]),
            "--public-grpc-port",
            _port(first["public_grpc"]),
            "--operator-port",
            "0",
        ]
        own = ["--role", "relay", "--control-address", str(control.ready["control"]), "--relay-id", name, *ports, *arguments]
        relays.append(await stack.enter_async_context(running(name, "balancer", own, log=logs / f"{name}.log")))
        await relays[-1].wait_ready()
    return relays


@dataclass(slots=True)
class RelayFleet:
    """`fleet.balancer` is the control; `fleet.public` the address that all relays share."""

    fleet: LocalFleet
    relays: list[Program]
    _stack: AsyncExitStack
    _logs: Path
    _arguments: list[str]

    async def restart_control(self) -> None:
        """A new control on the ports of the one before, which must have been killed; returns when it listens."""
        control = await start_control(self._stack, self._logs, self._arguments, self.fleet.balancer)
        self.fleet = replace(self.fleet, balancer=control)


@asynccontextmanager
async def relay_fleet(
    relays: int,
    runtimes: int,
    logs: Path,
    *,
    control_arguments: list[str],
    relay_arguments: list[str],
    runtime_arguments: list[str],
) -> AsyncIterator[RelayFleet]:
    """Starts them side by side, waits until all may be placed on and all relays are attached, and ends them all."""
    async with AsyncExitStack() as stack:
        control = await start_control(stack, logs, control_arguments)
        programs: list[Program] = []
        for number in range(1, runtimes + 1):
            name, address = f"runtime-{number}", str(control.ready["control"])
            own = ["--runtime-id", name, "--balancers", address, "--cpu-share", str(1 / runtimes), *runtime_arguments]
            programs.append(await stack.enter_async_context(running(name, "runtime", own, log=logs / f"{name}.log")))
        fronts = await start_relays(stack, relays, control, logs, relay_arguments)
        for program in programs:
            await program.wait_ready()
        fleet = LocalFleet(control, programs, str(fronts[0].ready["public"]), str(control.ready["operator"]))
        await fleet.wait_for("all runtimes eligible", lambda seen: seen["totals"]["eligible"] == runtimes, 30.0)
        await fleet.wait_for("all relays attached", lambda seen: len(seen["relays"]) == relays, 30.0)
        yield RelayFleet(fleet, fronts, stack, logs, control_arguments)


def _port(address: object) -> str:
    return str(address).rpartition(":")[2]
