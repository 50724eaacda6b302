"""A control, relays that share one public port, and runtimes, as real processes on this machine; the control can be restarted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from perf.fleet import LocalFleet
from perf.processes import Program, running

__all__ = ["RelayFleet", "relay_fleet"]


@dataclass(slots=True)
class RelayFleet:
    """`fleet.balancer` is the control; `fleet.public` the address that all relays share."""

    fleet: LocalFleet
    relays: list[Program]
    _stack: AsyncExitStack
    _logs: Path
    _arguments: list[str]
    _starts: int = 1

    async def restart_control(self) -> None:
        """A new control on the ports of the one before, which must have been killed; returns when it listens."""
        self._starts += 1
        ready = self.fleet.balancer.ready
        ports = ["--operator-port", _port(ready["operator"]), "--control-port", _port(ready["control"])]
        control = await self._stack.enter_async_context(_control(self._logs, self._starts, [*ports, *self._arguments]))
        await control.wait_ready()
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
        control = await stack.enter_async_context(
            _control(logs, 1, ["--operator-port", "0", "--control-port", "0", *control_arguments])
        )
        address = str((await control.wait_ready())["control"])
        programs: list[Program] = []
        for number in range(1, runtimes + 1):
            name = f"runtime-{number}"
            own = ["--runtime-id", name, "--balancers", address, "--cpu-share", str(1 / runtimes), *runtime_arguments]
            programs.append(await stack.enter_async_context(running(name, "runtime", own, log=logs / f"{name}.log")))
        fronts: list[Program] = []
        for number in range(1, relays + 1):
            name = f"relay-{number}"
            first = fronts[0].ready if fronts else {"public": ":0", "public_grpc": ":0"}
            ports = ["--public-port", _port(first["public"]), "--public-grpc-port", _port(first["public_grpc"])]
            own = ["--role", "relay", "--control-address", address, "--relay-id", name, *ports, "--operator-port", "0"]
            relay = await stack.enter_async_context(running(name, "balancer", [*own, *relay_arguments], log=logs / f"{name}.log"))
            await relay.wait_ready()
            fronts.append(relay)
        for program in programs:
            await program.wait_ready()
        fleet = LocalFleet(control, programs, str(fronts[0].ready["public"]), str(control.ready["operator"]))
        await fleet.wait_for("all runtimes eligible", lambda seen: seen["totals"]["eligible"] == runtimes, 30.0)
        await fleet.wait_for("all relays attached", lambda seen: len(seen["relays"]) == relays, 30.0)
        yield RelayFleet(fleet, fronts, stack, logs, control_arguments)


def _control(logs: Path, start: int, arguments: list[str]) -> AbstractAsyncContextManager[Program]:
    return running("control", "balancer", ["--role", "control", *arguments], log=logs / f"control-{start}.log")


def _port(address: object) -> str:
    return str(address).rpartition(":")[2]
