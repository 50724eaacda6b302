"""Keeps one runtime's load reports flowing for as long as it is enrolled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio
import grpc

from balancer.fleet.channels import RuntimeChannels
from balancer.fleet.fleet import Fleet
from balancer.fleet.membership import Member
from balancer.fleet.translate import snapshot_from_wire
from protos.switchboard.v1 import load_pb2, load_pb2_grpc
from runtime.primitives.backoff import Backoff
from runtime.primitives.clock import Clock
from runtime.primitives.rng import Rng

__all__ = ["ReportWatch"]


@dataclass(frozen=True, slots=True)
class ReportWatch:
    """Dials `LoadReports/Watch` and dials again, with backoff, whenever it ends. Ends only by cancellation."""

    fleet: Fleet
    channels: RuntimeChannels
    clock: Clock
    rng: Rng
    interval_ms: int
    on_failure: Callable[[str, str], None]
    """(runtime id, gRPC status name); called for each watch that ended."""

    async def run(self, member: Member) -> None:
        backoff = Backoff(self.rng, longest_s=2.0)
        request = load_pb2.WatchRequest(interval_ms=self.interval_ms, balancer_id=self.fleet.life.balancer_id)
        while True:
            watch = load_pb2_grpc.LoadReportsStub(self.channels.to(member.facts.grpc_address)).Watch(request)
            status = "OK"
            try:
                while True:
                    message = await watch.read()
                    if not isinstance(message, load_pb2.LoadSnapshot):  # the end marker: the server closed the stream
                        break
                    self.fleet.take_report(*snapshot_from_wire(message), self.clock.now_ns(), may_wait=True)
                    backoff.succeeded()
            except grpc.aio.AioRpcError as error:
                status = error.code().name
            finally:
                watch.cancel()
            self.on_failure(member.facts.runtime_id, status)
            await anyio.sleep(backoff.next_wait_s())
