"""The periodic look at what time alone changes in the fleet."""

from __future__ import annotations

from dataclasses import dataclass

import anyio

from balancer.fleet.channels import RuntimeChannels
from balancer.fleet.fleet import Fleet
from balancer.fleet.membership import ChangeKind
from balancer.fleet.registry_service import RegistryService
from runtime.primitives.clock import Clock

__all__ = ["FleetSweep"]


@dataclass(frozen=True, slots=True)
class FleetSweep:
    """Ends only by cancellation."""

    fleet: Fleet
    registry: RegistryService
    channels: RuntimeChannels
    clock: Clock

    async def run(self) -> None:
        interval_s = self.fleet.membership.rule.sweep_interval_ms / 1000
        while True:
            await anyio.sleep(interval_s)
            for change in self.fleet.sweep(self.clock.now_ns()):
                if change.kind is ChangeKind.FORGOTTEN:
                    self.registry.forget(change.member)
            if len(self.channels) > len(self.fleet.membership):
                needed = {seat.member.facts.grpc_address for seat in self.fleet.seats()}
                await self.channels.keep_only(needed, self.clock.now_ns())
