"""Runs N runtimes on one machine: starts them, restarts a dead one, replaces them one by one, and leaves no orphan.

It holds the machine's shared memory. When a worker dies, the supervisor ends that worker's legs `lost`, by name, before it starts
another in its place.

    SIGTERM, SIGINT   drain all workers, then end
    SIGHUP            drain and replace the workers one by one
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Final

import anyio
from structlog.typing import FilteringBoundLogger

from runtime.app.changes import Changes
from runtime.app.machine_memory import MachineMemory, default_path
from runtime.app.settings import RuntimeSettings
from runtime.app.starter import until_starter_is_gone
from runtime.app.worker_command import worker_command, worker_environment, worker_settings
from runtime.app.worker_phase import Bounds
from runtime.app.worker_place import Place, Program, WorkerFailed
from runtime.primitives.ids import as_id_stem
from runtime.session.shared_layout import Layout

__all__ = ["Supervisor", "supervise"]

_LEAVE_GRACE_S: Final = 15.0
"""Beyond its drain, a worker ends what is left, says goodbye and closes its engines: some seconds, more on a busy machine."""


class Supervisor:
    """Keeps the places filled until it is told to leave. One event loop; no method but `run` and `replace_when_asked` waits."""

    def __init__(self, places: Sequence[Place], changes: Changes, log: FilteringBoundLogger) -> None:
        self._places = places
        self._changes = changes
        self._log = log
        self._is_leaving = False
        self._is_replacement_wanted = False

    def leave(self, cause: str) -> None:
        """Drains all workers; `run` ends after them. Idempotent, and heard at any time, also while workers start."""
        if not self._is_leaving:
            self._is_leaving = True
            self._log.info("supervisor drains", workers=len(self._places), cause=cause)
            for place in self._places:
                place.dismiss()

    def replace(self) -> None:
        """Asks for the replacement of all workers. During one, another follows it: only that surely has what is new."""
        self._is_replacement_wanted = True
        self._changes.tell()

    async def run(self, on_ready: Callable[[], None]) -> WorkerFailed | None:
        """Returns when all workers have left; why, where one was never ready."""
        async with anyio.create_task_group() as keepers:
            for place in self._places:
                keepers.start_soon(place.keep)
            await self._changes.until(lambda: self._is_leaving or self._has_failed() or self._are_all_ready())
            if not self._is_leaving and not self._has_failed():
                on_ready()
                await self._changes.until(lambda: self._is_leaving)
            if self._has_failed():
                self.leave("a worker failed to start")
        return next((place.failure for place in self._places if place.failure is not None), None)

    async def replace_when_asked(self) -> None:
        """One replacement at a time; until cancelled."""
        while True:
            await self._changes.until(lambda: self._is_replacement_wanted)
            self._is_replacement_wanted = False
            await self._replace_all()

    async def _replace_all(self) -> None:
        """One by one, each only while all others take calls, so that these always have somewhere to go."""
        self._log.info("supervisor replaces its workers", workers=len(self._places))
        lives = [place.life for place in self._places]
        for place, life in zip(self._places, lives, strict=True):
            await self._changes.until(lambda: self._is_leaving or self._are_all_ready())
            if self._is_leaving:
                return
            if place.life == life:  # else it has been replaced already, by its own death
                place.drain()
        await self._changes.until(lambda: self._is_leaving or self._are_all_ready())
        if not self._is_leaving:
            self._log.info("supervisor has replaced its workers")

    def _are_all_ready(self) -> bool:
        return all(place.is_ready for place in self._places)

    def _has_failed(self) -> bool:
        return any(place.failure is not None for place in self._places)


async def supervise(settings: RuntimeSettings, log: FilteringBoundLogger) -> None:
    """Runs `settings.workers` runtimes until told to end. Raises a VoiceError that says why not, or OSError."""
    machine_id = settings.machine_id or as_id_stem(socket.gethostname())
    path = Path(settings.shared_memory) if settings.shared_memory else default_path(machine_id)
    # Before there is anything to leave behind: until here a signal simply ends us.
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        memory, before = MachineMemory.create(path, Layout(settings.workers, settings.adoption_limit))
        try:
            if before:
                log.warning("shared memory replaced", path=str(path), was=before)
            changes = Changes()
            places = [_place(settings, machine_id, memory, index, changes, log) for index in range(settings.workers)]
            supervisor = Supervisor(places, changes, log)
            async with anyio.create_task_group() as group:
                group.start_soon(_obey_signals, signals, supervisor)
                group.start_soon(supervisor.replace_when_asked)
                if settings.leave_with_stdin:
                    group.start_soon(_leave_with_starter, supervisor)
                failure = await supervisor.run(lambda: _announce(machine_id, path, places))
                group.cancel_scope.cancel()
            if failure is not None:
                raise failure
        finally:
            totals = memory.totals()
            log.info("supervisor ends", started=totals.started, ended=dict(totals.ended), lost=totals.lost, active=totals.active)
            memory.close()


def _place(
    settings: RuntimeSettings, machine_id: str, memory: MachineMemory, index: int, changes: Changes, log: FilteringBoundLogger
) -> Place:
    own = worker_settings(settings, machine_id, Path(f"/proc/self/fd/{memory.descriptor}"), index)

    def command(report_fd: int) -> list[str]:
        return worker_command(dataclasses.replace(own, report_fd=report_fd))

    def settle() -> None:
        lost = memory.shard(index).reclaim()
        if lost:
            legs = [f"{session_id}/{epoch}" for session_id, epoch in lost]
            log.warning("legs lost", runtime_id=own.runtime_id, legs=legs)
        if not memory.is_at_path():
            log.warning("shared memory is hidden", path=str(memory.path), cause="its file was removed; the workers go on with it")

    return Place(
        own.runtime_id,
        Program(command, worker_environment(os.environ, settings), (memory.descriptor,)),
        Bounds(settings.worker_start_s, settings.worker_silence_s, settings.drain_timeout_s + _LEAVE_GRACE_S),
        settle,
        changes,
        log,
    )


def _announce(machine_id: str, path: Path, places: Sequence[Place]) -> None:
    ready = {
        "event": "ready",
        "machine_id": machine_id,
        "shared_memory": str(path),
        "workers": [place.ready for place in places],
    }
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()


async def _obey_signals(signals: AsyncIterator[signal.Signals], supervisor: Supervisor) -> None:
    async for number in signals:
        if number == signal.SIGHUP:
            supervisor.replace()
        else:
            supervisor.leave(signal.Signals(number).name)


async def _leave_with_starter(supervisor: Supervisor) -> None:
    await until_starter_is_gone()
    supervisor.leave("standard input has ended")
