"""The product's programs as child processes: started, waited for until ready, and ended by their own handle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

__all__ = ["Program", "ProgramFailed", "running"]

_STOP_S: Final = 10.0
_LONGEST_LINE: Final = 64 * 1024
_SAME: Final[Mapping[str, str]] = MappingProxyType({})


class ProgramFailed(Exception):
    """A program ended, or said nothing, before it was ready; the text is its own last line where it wrote one."""


class Program:
    """A running program.

    Attributes:
        ready: what it printed when it became ready; empty before `wait_ready` has returned.
    """

    def __init__(self, name: str, process: Process, log: Path) -> None:
        self.name = name
        self.ready: Mapping[str, Any] = {}
        self._process = process
        self._log = log
        assert process.stdout is not None, "standard output is a pipe"
        self._lines = BufferedByteReceiveStream(process.stdout)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    async def wait_ready(self, within_s: float = 60.0) -> Mapping[str, Any]:
        """Waits for the one JSON line that says where it listens. Raises ProgramFailed where it does not come in time."""
        try:
            with anyio.fail_after(within_s):
                line = await self._lines.receive_until(b"\n", _LONGEST_LINE)
        except TimeoutError:
            raise ProgramFailed(f"{self.name} was not ready within {within_s:g} s (its log: {self._log})") from None
        except (anyio.IncompleteRead, anyio.EndOfStream):
            await self._process.wait()
            raise ProgramFailed(f"{self.name} did not start: {self._last_line()}") from None
        self.ready = json.loads(line)
        return self.ready

    async def let_go(self) -> None:
        """Ends the program's standard input, as our own end would."""
        assert self._process.stdin is not None, "standard input is a pipe"
        await self._process.stdin.aclose()

    async def end_input(self, within_s: float = 60.0) -> Any:
        """Ends the program's standard input and answers the JSON line that it says to that."""
        await self.let_go()
        with anyio.fail_after(within_s):
            return json.loads(await self._lines.receive_until(b"\n", _LONGEST_LINE))

    def kill(self) -> None:
        """SIGKILL: the process gets no chance to say anything."""
        self._process.kill()

    def terminate(self) -> None:
        self._process.terminate()

    async def wait(self) -> int:
        return await self._process.wait()

    def _last_line(self) -> str:
        lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else "it wrote nothing"


@asynccontextmanager
async def running(
    name: str, module: str, arguments: list[str], *, log: Path, prefix: Sequence[str] = (), environment: Mapping[str, str] = _SAME
) -> AsyncIterator[Program]:
    """Runs `python -m module`; ends it with SIGTERM, and after ten seconds with SIGKILL. Its standard error goes to `log`.

    `prefix`: a command that runs it; `environment`: beside our own.
    """
    if module in ("balancer", "runtime"):
        arguments = [*arguments, "--leave-with-stdin", "true"]  # nothing outlives a test or a demo, however that ends
    with log.open("wb") as errors:
        process = await anyio.open_process(
            [*prefix, sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **environment},
        )
    try:
        yield Program(name, process, log)
    finally:
        with anyio.CancelScope(shield=True):
            await _stop(process)


async def _stop(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
        with anyio.move_on_after(_STOP_S):
            await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()
    await process.aclose()
