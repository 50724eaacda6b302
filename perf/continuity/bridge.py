"""A third party's client, unmodified, in a process and an environment of its own, as a line of Realtime events."""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import numpy as np
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from numpy.typing import NDArray

from clients.realtime import CallFailed
from perf.processes import ProgramFailed

__all__ = ["Bridge", "BridgedCall", "bridge"]

_BRIDGES: Final = Path(__file__).parent / "bridges"
_ROOT: Final = Path(__file__).parents[2]
_LONGEST_LINE: Final = 4 * 1024 * 1024


@asynccontextmanager
async def bridge(name: str, environment: str, base_url: str) -> AsyncIterator[Bridge]:
    """Runs `bridges/NAME_bridge.py` in `environment`, a folder that `make clients-test` fills. `base_url`: ws://HOST:PORT/v1.

    Raises ProgramFailed where it is not there.
    """
    python = _ROOT / environment / "bin" / "python"
    if not python.exists():
        raise ProgramFailed(f"{environment} is missing: make clients-test installs it")
    command = [str(python), str(_BRIDGES / f"{name}_bridge.py"), base_url]
    async with await anyio.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None) as process:
        lines = Bridge(process)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(lines.read)
                yield lines
                group.cancel_scope.cancel()
        finally:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                process.kill()


class Bridge:
    """All calls go through one process of the client's, told apart by their names."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self._to = process.stdin
        self._from = BufferedByteReceiveStream(process.stdout)
        self._heard: dict[str, MemoryObjectSendStream[dict[str, Any]]] = {}
        self._writing = anyio.Lock()

    async def read(self) -> None:
        try:
            while True:
                line = json.loads(await self._from.receive_until(b"\n", _LONGEST_LINE))
                if line["call"] in self._heard:
                    self._heard[line["call"]].send_nowait(line)
        except (anyio.EndOfStream, anyio.IncompleteRead):
            for call, heard in self._heard.items():
                heard.send_nowait({"call": call, "closed": "the client's process ended"})

    async def say(self, line: dict[str, Any]) -> None:
        try:
            async with self._writing:
                await self._to.send(json.dumps(line).encode() + b"\n")
        except anyio.BrokenResourceError as error:
            raise CallFailed("the client's process ended") from error

    @asynccontextmanager
    async def dial(self, session_id: str) -> AsyncIterator[BridgedCall]:
        heard, events = anyio.create_memory_object_stream[dict[str, Any]](math.inf)
        self._heard[session_id] = heard
        await self.say({"open": session_id})
        try:
            yield BridgedCall(self, session_id, events)
        finally:
            del self._heard[session_id]
            events.close()
            heard.close()


class BridgedCall:
    def __init__(self, bridge: Bridge, session_id: str, heard: MemoryObjectReceiveStream[dict[str, Any]]) -> None:
        self.session_id = session_id
        self._bridge = bridge
        self._heard = heard

    async def send(self, event: dict[str, Any]) -> None:
        await self._bridge.say({"call": self.session_id, "event": event})

    async def append(self, samples: NDArray[np.int16]) -> None:
        audio = b64encode(np.ascontiguousarray(samples, "<i2").tobytes()).decode()
        await self.send({"type": "input_audio_buffer.append", "audio": audio})

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        async for line in self._heard:
            if "closed" in line:
                raise CallFailed(line["closed"])
            yield line["event"]
