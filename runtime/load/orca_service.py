"""`xds.service.orca.v3.OpenRcaService`: the standard out-of-band load report, for clients that are not ours."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from grpc import aio

from protos.xds.data.orca.v3 import orca_load_report_pb2
from protos.xds.service.orca.v3 import orca_pb2, orca_pb2_grpc
from runtime.codec.orca import orca_report
from runtime.primitives.clock import NS_PER_S
from runtime.primitives.load_snapshot import LoadSnapshot

__all__ = ["OrcaService"]


class OrcaService(orca_pb2_grpc.OpenRcaServiceServicer):
    """Reports at once and then every interval that the client asked for, but not more often than the minimum.

    An interval that is missing or not above zero counts as the minimum (gRPC proposal A51: implementations set one, 30 s where
    the operator says nothing).
    """

    def __init__(self, snapshot: Callable[[], LoadSnapshot], minimum_s: float, told: Callable[[], None] = lambda: None) -> None:
        """Args: `told` is called after each report that a client has taken."""
        self._snapshot = snapshot
        self._minimum_s = minimum_s
        self._told = told

    async def StreamCoreMetrics(  # type: ignore[override]  # the stubs know only the generator form
        self,
        request: orca_pb2.OrcaLoadReportRequest,
        context: aio.ServicerContext[orca_pb2.OrcaLoadReportRequest, orca_load_report_pb2.OrcaLoadReport],
    ) -> None:
        asked_s = request.report_interval.seconds + request.report_interval.nanos / NS_PER_S
        interval_s = max(self._minimum_s, asked_s)
        while True:
            await context.write(orca_report(self._snapshot()))
            self._told()
            await anyio.sleep(interval_s)
