"""One worker's place: keeps a process in it, restarts one that ended, and kills one that is given up."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import anyio
from anyio.abc import Process
from structlog.typing import FilteringBoundLogger

from runtime.app.changes import Changes
from runtime.app.worker_phase import NEXT, Bounds, Happening, Patience, Phase
from runtime.app.worker_report import ReportReader
from runtime.primitives.backoff import Backoff
from runtime.primitives.clock import NS_PER_S, MonotonicClock
from runtime.primitives.errors import Fault, VoiceError
from runtime.primitives.rng import SeededRng

__all__ = ["Place", "Program", "WorkerFailed"]

_HEALTHY_S: Final = 30.0
"""A worker that took calls for so long has not failed to start: its successor starts at once."""
_LOOK_S: Final = 0.25
_STANDARD_ERROR: Final = 2
_MOST_AT_ONCE: Final = 64 * 1024


class WorkerFailed(VoiceError):
    """A worker ended before it was ready, at the first start of all: the settings or the machine are at fault."""

    code = "worker_failed"
    fault = Fault.ENVIRONMENT

    def __init__(self, runtime_id: str, how: str) -> None:
        self.runtime_id = runtime_id
        super().__init__(f"worker {runtime_id} {how} before it was ready; its own words are above")


@dataclass(frozen=True, slots=True)
class Program:
    """How a worker is started. `command` is given the descriptor for its reports; `inherited` are passed on besides."""

    command: Callable[[int], Sequence[str]]
    environment: Mapping[str, str]
    inherited: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _End:
    how: str
    was_ready: bool
    was_asked: bool
    served_s: float


class Place:
    """A place, and whoever fills it now.

    Attributes:
        phase, life: of the present process; `life` counts them.
        ready: what it said when it was ready.
        failure: set where the very first process was never ready; the place then stays empty.
    """

    def __init__(
        self,
        runtime_id: str,
        program: Program,
        bounds: Bounds,
        on_ended: Callable[[], None],
        changes: Changes,
        log: FilteringBoundLogger,
    ) -> None:
        self.runtime_id = runtime_id
        self.phase = Phase.DOWN
        self.life = 0
        self.ready: dict[str, Any] = {}
        self.failure: WorkerFailed | None = None
        self._is_wanted = True
        self._program = program
        self._bounds = bounds
        self._patience = Patience(bounds)
        self._on_ended = on_ended
        self._changes = changes
        self._log = log.bind(runtime_id=runtime_id)
        self._process: Process | None = None
        self._clock = MonotonicClock()
        self._ready_ns = 0
        self._backoff = Backoff(SeededRng(), first_s=0.2, longest_s=10.0)

    @property
    def is_ready(self) -> bool:
        return self.phase is Phase.READY

    def drain(self) -> None:
        """Asks the present process to let its calls finish and leave; it is killed where it does not."""
        if self._process is not None and self.phase in (Phase.STARTING, Phase.READY):
            self._happened(Happening.ASKED)
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    def dismiss(self) -> None:
        """Drains, for good: the place stays empty. Also while a process is just being made."""
        self._is_wanted = False
        self.drain()
        self._changes.tell()

    async def keep(self) -> None:
        """Keeps the place filled until it is dismissed, or has failed."""
        while self._is_wanted:
            end = await self._live_once()
            if not self._is_wanted:
                return
            if not self.ready:
                self.failure = WorkerFailed(self.runtime_id, end.how)
                self._changes.tell()
                return
            if end.was_ready and (end.was_asked or end.served_s >= _HEALTHY_S):
                self._backoff.succeeded()
                wait_s = 0.0
            else:
                wait_s = self._backoff.next_wait_s()
            if not end.was_asked:
                self._log.warning(
                    "worker restarts",
                    how=end.how,
                    was_ready=end.was_ready,
                    served_s=round(end.served_s, 1),
                    wait_s=round(wait_s, 2),
                )
            with anyio.move_on_after(wait_s):
                await self._changes.until(lambda: not self._is_wanted)

    async def _live_once(self) -> _End:
        hearing, speaking = os.pipe()
        process: Process | None = None
        how = "could not be started"
        self._ready_ns = 0
        try:
            try:
                with anyio.CancelScope(shield=True):  # a process that was made has an owner
                    process = await self._start(speaking)
            except OSError as error:
                self._log.error("worker cannot be started", error=error.strerror)
            finally:
                os.close(speaking)
            if process is not None:
                self._began(process)
                async with anyio.create_task_group() as group:
                    group.start_soon(self._hear, hearing)
                    group.start_soon(self._watch, process)
                    how = f"ended with status {await process.wait()}"
                    group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                if process is not None:
                    await _bury(process)
                os.close(hearing)
                end = _End(how, bool(self._ready_ns), self.phase is Phase.LEAVING, self._served_s())
                self._process = None
                self._on_ended()
                self._happened(Happening.ENDED)
        return end

    async def _start(self, speaking: int) -> Process:
        # What an agent prints goes where the logs go. In a session of its own a worker is spared the signals of a terminal, which
        # go to a whole group: they are for the supervisor to obey.
        return await anyio.open_process(
            self._program.command(speaking),
            stdin=subprocess.PIPE,
            stdout=_STANDARD_ERROR,
            stderr=None,
            env=self._program.environment,
            pass_fds=(speaking, *self._program.inherited),
            start_new_session=True,
        )

    def _began(self, process: Process) -> None:
        self._process = process
        self._patience = Patience(self._bounds)
        self.life += 1
        self._happened(Happening.STARTED)
        if not self._is_wanted:
            self.drain()

    async def _hear(self, hearing: int) -> None:
        reader = ReportReader()
        while True:
            await anyio.wait_readable(hearing)
            data = os.read(hearing, _MOST_AT_ONCE)
            if not data:
                return
            self._patience.heard()
            ready = reader.feed(data)
            if ready is not None and self.phase is Phase.STARTING:
                self.ready = ready
                self._ready_ns = self._clock.now_ns()
                self._log.info("worker ready", pid=self._process.pid if self._process else 0)
                self._happened(Happening.SAID_READY)

    async def _watch(self, process: Process) -> None:
        looked_ns = self._clock.now_ns()
        while True:
            await anyio.sleep(_LOOK_S)
            now_ns = self._clock.now_ns()
            cause = self._patience.passed((now_ns - looked_ns) / NS_PER_S)
            looked_ns = now_ns
            if cause:
                self._log.warning("worker killed", pid=process.pid, cause=cause)
                process.kill()
                return

    def _served_s(self) -> float:
        return (self._clock.now_ns() - self._ready_ns) / NS_PER_S if self._ready_ns else 0.0

    def _happened(self, happening: Happening) -> None:
        following = NEXT.get((self.phase, happening), self.phase)
        if following is not self.phase:
            self.phase = following
            self._patience.entered(following)
            self._changes.tell()


async def _bury(process: Process) -> None:
    """Returns when the process is gone and its pipes are closed; kills it where it still runs."""
    if process.returncode is None:
        process.kill()
    await process.wait()
    await process.aclose()
