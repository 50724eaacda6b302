"""Where the calls take place: a balancer, the runtime that serves them all, and one more that comes before the harm does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from perf.continuity.agent import EFFECTS_FILE
from perf.continuity.namespace import Namespace, namespace
from perf.fleet import LocalFleet
from perf.processes import Program, running
from perf.relay_fleet import start_control, start_relays

__all__ = ["Stage", "stage"]


@dataclass(slots=True)
class Stage:
    """`fleet.runtimes[0]` is the one that comes to harm, in `network` where that is to be cut."""

    fleet: LocalFleet
    network: Namespace | None
    logs: Path
    effects: Path
    pids: list[int]
    """Of every process that was started, in their order."""
    _stack: AsyncExitStack
    _control_arguments: list[str]
    _arguments: list[str] = field(default_factory=list)
    relays: list[Program] = field(default_factory=list)
    """Those of their own; none: the balancer is its own."""

    @property
    def victim(self) -> Program:
        return self.fleet.runtimes[0]

    @property
    def front(self) -> Program:
        """Whose ready line says where callers come."""
        return (self.relays or [self.fleet.balancer])[0]

    @property
    def move_logs(self) -> list[Path]:
        """Of the processes that hold the callers."""
        return [self.logs / f"{relay.name}.log" for relay in self.relays] or [self.logs / "balancer.log"]

    async def restart_control(self) -> None:
        """After it was killed: a new one on the same ports; returns when it listens."""
        control = await start_control(self._stack, self.logs, self._control_arguments, self.fleet.balancer)
        self.pids.append(control.pid)
        self.fleet = replace(self.fleet, balancer=control)

    async def add_runtime(self, network: Namespace | None = None) -> Program:
        """Starts one more and waits until it may be placed on."""
        number = len(self.fleet.runtimes) + 1
        name = f"runtime-{number}"
        own = ["--runtime-id", name, "--balancers", str(self.fleet.balancer.ready["control"]), *self._arguments]
        if network is not None:
            own += ["--http-host", network.far, "--grpc-host", network.far]
        prefix = () if network is None else network.prefix
        environment = {EFFECTS_FILE: str(self.effects)}
        program = await self._stack.enter_async_context(
            running(name, "runtime", own, log=self.logs / f"{name}.log", prefix=prefix, environment=environment)
        )
        self.pids.append(program.pid)
        await program.wait_ready()
        self.fleet.runtimes.append(program)
        await self.fleet.wait_for(
            f"{name} eligible",
            lambda seen: any(one["runtime_id"] == name and one["eligible"] for one in seen["runtimes"]),
            30.0,
        )
        return program


@asynccontextmanager
async def stage(
    logs: Path, *, calls: int, relays: int, has_network: bool, runtime_arguments: list[str], told: Callable[[str], None]
) -> AsyncIterator[Stage]:
    """With the first runtime there. `relays`: so many of their own, beside a control. Ends everything.

    Raises ProgramFailed, NoNamespace or OSError.
    """
    async with AsyncExitStack() as stack:
        network = await stack.enter_async_context(namespace()) if has_network else None
        arguments = ["--cold-allowance", str(calls + 4)]
        if network is not None:
            arguments += ["--control-host", network.near]
        told("starting the balancer and the runtime that comes to harm")
        fronts: list[Program] = []
        if relays:
            balancer = await start_control(stack, logs, arguments)
            fronts = await start_relays(stack, relays, balancer, logs, [])
        else:
            ports = ["--public-port", "0", "--operator-port", "0", "--control-port", "0"]
            own = [*ports, *arguments]
            balancer = await stack.enter_async_context(running("balancer", "balancer", own, log=logs / "balancer.log"))
            await balancer.wait_ready()
        public = (fronts or [balancer])[0].ready["public"]
        fleet = LocalFleet(balancer, [], str(public), str(balancer.ready["operator"]))
        limits = [
            "--hard-limit",
            str(calls + 4),
            "--inflow-depth",
            str(calls + 4),
            "--inflow-ramp-s",
            "0",
            "--agent",
            "perf.continuity.agent:Bookkeeper",
        ]
        pids = [program.pid for program in (balancer, *fronts)]
        whole = Stage(fleet, network, logs, logs / "effects", pids, stack, arguments, [*limits, *runtime_arguments], fronts)
        whole.effects.touch()
        await whole.add_runtime(network)
        yield whole
