"""Runs N runtimes on one machine: starts them, restarts a dead one, replaces them one by one, and leaves no orphan.

It holds the machine's shared memory. When a worker dies, the supervisor ends that worker's legs `lost`, by name, before it starts
another in its place.

    SIGTERM, SIGINT   drain all workers, then end
    SIGHUP            drain and replace the workers one by one
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from structlog.typing import FilteringBoundLogger

from runtime.app.machine_memory import MachineMemory, default_path
from runtime.app.settings import RuntimeSettings
from runtime.app.worker_command import worker_command, worker_settings
from runtime.primitives.backoff import Backoff
from runtime.primitives.clock import NS_PER_S, MonotonicClock
from runtime.primitives.errors import Fault, VoiceError
from runtime.primitives.rng import SeededRng
from runtime.session.shared_layout import Layout

__all__ = ["WorkerFailed", "supervise"]

_LONGEST_READY_LINE: Final = 64 * 1024
_HEALTHY_S: Final = 30.0
"""A worker that lived this long has not failed to start: its successor starts at once."""


class WorkerFailed(VoiceError):
    """A worker ended before it was ready, at the first start of all: the settings or the machine are at fault."""

    code = "worker_failed"
    fault = Fault.ENVIRONMENT

    def __init__(self, runtime_id: str, status: int) -> None:
        self.runtime_id = runtime_id
        super().__init__(f"worker {runtime_id} ended with status {status} before it was ready; its own words are above")


class _Worker:
    """One place for a worker, and whoever fills it now."""

    def __init__(self, settings: RuntimeSettings, memory: MachineMemory, log: FilteringBoundLogger) -> None:
        self.runtime_id = settings.runtime_id
        self.index = settings.shard
        self.ready: dict[str, Any] = {}
        self.is_ready = anyio.Event()
        self.left = anyio.Event()
        """Set when the present process has ended and its shard is free; each process has its own."""
        self.is_wanted = True
        self._settings = settings
        self._memory = memory
        self._log = log.bind(runtime_id=settings.runtime_id)
        self._process: Process | None = None
        self._clock = MonotonicClock()
        self._backoff = Backoff(SeededRng(), first_s=0.2, longest_s=10.0)

    def drain(self) -> None:
        """Asks the present process to let its calls finish and leave."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()

    async def keep(self) -> None:
        """Keeps the place filled as long as it is wanted. Raises WorkerFailed where the very first start fails."""
        while self.is_wanted:
            began_ns = self._clock.now_ns()
            status = await self._run_one()
            if not self.is_wanted:
                return
            if not self.ready:
                raise WorkerFailed(self.runtime_id, status)
            lived_s = (self._clock.now_ns() - began_ns) / NS_PER_S
            if status == 0 or lived_s >= _HEALTHY_S:
                self._backoff.succeeded()
                continue
            wait_s = self._backoff.next_wait_s()
            self._log.warning("worker restarts", status=status, lived_s=round(lived_s, 1), wait_s=round(wait_s, 2))
            await anyio.sleep(wait_s)

    async def _run_one(self) -> int:
        process = await anyio.open_process(
            worker_command(self._settings), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None
        )
        self._process = process
        try:
            await self._hear_ready(process)
            return await process.wait()
        finally:
            with anyio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.wait()
                await process.aclose()
                self._end_lost()
                self.is_ready = anyio.Event()
                self.left.set()
                self.left = anyio.Event()

    async def _hear_ready(self, process: Process) -> None:
        assert process.stdout is not None, "standard output is a pipe"
        try:
            line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", _LONGEST_READY_LINE)
        except (anyio.IncompleteRead, anyio.EndOfStream):
            return
        self.ready = json.loads(line)
        self._log.info("worker ready", pid=process.pid)
        self.is_ready.set()

    def _end_lost(self) -> None:
        lost = self._memory.shard(self.index).reclaim()
        if lost:
            self._log.warning("legs lost", legs=[f"{session_id}/{epoch}" for session_id, epoch in lost])


async def supervise(settings: RuntimeSettings, log: FilteringBoundLogger) -> None:
    """Runs `settings.workers` runtimes until told to end. Raises MemoryInUse or WorkerFailed."""
    machine_id = settings.machine_id or socket.gethostname().lower().replace(".", "-").replace("_", "-")[:48]
    path = Path(settings.shared_memory) if settings.shared_memory else default_path(machine_id)
    memory, before = MachineMemory.create(path, Layout(settings.workers, settings.adoption_limit))
    if before:
        log.warning("shared memory replaced", path=str(path), was=before)
    try:
        workers = [_Worker(worker_settings(settings, machine_id, path, index), memory, log) for index in range(settings.workers)]
        await _run(workers, lambda: _announce(machine_id, path, workers), log)
        totals = memory.totals()
        log.info("supervisor ends", started=totals.started, ended=dict(totals.ended), lost=totals.lost, active=totals.active)
    finally:
        memory.close()


async def _run(workers: list[_Worker], on_ready: Callable[[], None], log: FilteringBoundLogger) -> None:
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_obey_signals, workers, log)
            async with anyio.create_task_group() as keepers:
                for worker in workers:
                    keepers.start_soon(worker.keep)
                for worker in workers:
                    await worker.is_ready.wait()
                on_ready()
            group.cancel_scope.cancel()
    except* WorkerFailed as failures:
        raise _first(failures) from failures


def _first(failures: BaseExceptionGroup[WorkerFailed]) -> WorkerFailed:
    failure = failures.exceptions[0]
    return _first(failure) if isinstance(failure, BaseExceptionGroup) else failure


def _announce(machine_id: str, path: Path, workers: list[_Worker]) -> None:
    ready = {
        "event": "ready",
        "machine_id": machine_id,
        "shared_memory": str(path),
        "workers": [worker.ready for worker in workers],
    }
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()


async def _obey_signals(workers: list[_Worker], log: FilteringBoundLogger) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async with anyio.create_task_group() as group:
            async for number in signals:
                if number == signal.SIGHUP:
                    group.start_soon(_replace_all, workers, log)
                    continue
                log.info("supervisor drains", workers=len(workers))
                for worker in workers:
                    worker.is_wanted = False
                    worker.drain()


async def _replace_all(workers: list[_Worker], log: FilteringBoundLogger) -> None:
    """One by one: the next is drained when the last one's successor is ready, so siblings always have room."""
    log.info("supervisor replaces its workers", workers=len(workers))
    for worker in workers:
        if not worker.is_wanted:
            return
        await worker.is_ready.wait()
        left = worker.left
        worker.drain()
        await left.wait()
        await worker.is_ready.wait()
    log.info("supervisor has replaced its workers")
