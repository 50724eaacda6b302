"""`LoadReports/Watch`: the full snapshot at once, every interval, and at once on a change of state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
import grpc
from grpc import aio

from protos.switchboard.v1 import load_pb2 as pb
from protos.switchboard.v1 import load_pb2_grpc
from runtime.codec.snapshot_message import snapshot_message
from runtime.primitives.load_snapshot import LoadSnapshot, RuntimeState

__all__ = ["LoadReportService"]

_DEFAULT_MS: Final = 1_000
_ALLOWED_MS: Final = (100, 60_000)


class LoadReportService(load_pb2_grpc.LoadReportsServicer):
    """Serves any number of watchers. `state_changed` wakes them all."""

    def __init__(self, snapshot: Callable[[], LoadSnapshot]) -> None:
        self._snapshot = snapshot
        self._changed = anyio.Event()
        self._told_ready = anyio.Event()

    async def wait_until_told_ready(self) -> None:
        """Returns when some watcher has been told that this runtime is ready: from now on it can be placed on."""
        await self._told_ready.wait()

    def state_changed(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def Watch(  # type: ignore[override]  # the stubs know only the generator form
        self,
        request: pb.WatchRequest,
        context: aio.ServicerContext[pb.WatchRequest, pb.LoadSnapshot],
    ) -> None:
        interval_ms = request.interval_ms or _DEFAULT_MS
        if not _ALLOWED_MS[0] <= interval_ms <= _ALLOWED_MS[1]:
            text = f"interval_ms is {interval_ms}; allowed: {_ALLOWED_MS[0]} to {_ALLOWED_MS[1]}"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        while True:
            changed = self._changed
            snapshot = self._snapshot()
            await context.write(snapshot_message(snapshot))
            if snapshot.state is RuntimeState.READY:
                self._told_ready.set()
            with anyio.move_on_after(interval_ms / 1000):
                await changed.wait()
