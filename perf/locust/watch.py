"""Looks at the fleet while callers call, and waits until it is at rest when they have gone."""

from __future__ import annotations

import urllib.request
from typing import Any, Final

import anyio

from perf.fleet import LocalFleet, get_json
from perf.locust.figures import FleetSample, Settled, residue
from runtime.primitives.clock import NS_PER_S, Clock

__all__ = ["runtime_names", "settle", "watch_fleet"]

_LOOK_S: Final = 0.5
_RELAY_GAUGES: Final = ("connections", "relayed", "buffered_bytes", "paused")


def runtime_names(fleet: LocalFleet) -> list[str]:
    return [str(program.ready["runtime_id"]) for program in fleet.runtimes]


async def watch_fleet(fleet: LocalFleet, clock: Clock, began_ns: int, samples: list[FleetSample]) -> None:
    """Appends a sample twice a second until cancelled."""
    while True:
        seen = await fleet.document("/v1/fleet")
        at_s = round((clock.now_ns() - began_ns) / NS_PER_S, 2)
        runtimes = seen["runtimes"]
        samples.append(
            FleetSample(
                at_s,
                {each["runtime_id"]: each["books"]["active"] for each in runtimes},
                {each["runtime_id"]: each["utilisation"] or 0.0 for each in runtimes},
            )
        )
        await anyio.sleep(_LOOK_S)


async def settle(fleet: LocalFleet, within_s: float) -> Settled:
    """What is there when nothing moves any more; what it is after `within_s` where something is left."""
    settled = await _look(fleet)
    with anyio.move_on_after(within_s):
        while residue(settled):
            await anyio.sleep(_LOOK_S)
            settled = await _look(fleet)
    return settled


async def _look(fleet: LocalFleet) -> Settled:
    loads: dict[str, Any] = {}
    for program in fleet.runtimes:
        loads[program.name] = await anyio.to_thread.run_sync(get_json, f"{program.ready['http']}/v1/load")
    text = await anyio.to_thread.run_sync(_get_text, f"{fleet.operator}/metrics")
    relay = {name: _gauge(text, f"switchboard_relay_{name}") for name in _RELAY_GAUGES}
    return Settled(await fleet.document("/v1/fleet"), loads, relay)


def _get_text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10.0) as answer:
        text: str = answer.read().decode()
        return text


def _gauge(text: str, name: str) -> float:
    for line in text.splitlines():
        if line.startswith(f"{name} "):
            return float(line.split()[1])
    raise ValueError(f"{name} is not among the metrics")
