"""A small runtime that outlives nothing and says asides: an agent whose every word follows from what it heard.

To each message it says a checkpoint and then `ordinal:message`; to `sing N` it adds N messages of plain audio with no checkpoint
between them. So whoever hears it can tell exactly what was lost, repeated or out of order, whatever runtimes it went through.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import websockets
from websockets.asyncio.server import ServerConnection
from websockets.extensions.base import Extension, ServerExtensionFactory
from websockets.frames import Frame, Opcode
from websockets.typing import ExtensionName

from protos.switchboard.v1 import continuity_pb2 as pb
from runtime.wire.asides import ASIDE_EXTENSION, build_aside
from runtime.wire.headers import SESSION_HEADER
from tests.balancer.support.fake_runtime import FakeRuntime

__all__ = ["AsideRuntime", "Line", "agent", "asides"]

SING = "sing "


class _Asides(Extension):
    """What came, in its order: messages as bytes, asides as RelayAside. Asides go no further."""

    name = ExtensionName(ASIDE_EXTENSION)

    def __init__(self) -> None:
        self.came: asyncio.Queue[bytes | pb.RelayAside | None] = asyncio.Queue()
        self._part = b""
        self.pings = 0

    def encode(self, frame: Frame) -> Frame:
        return frame

    def decode(self, frame: Frame, *, max_size: int | None = None) -> Frame:
        self.pings += frame.opcode is Opcode.PING
        if frame.rsv3:
            self.came.put_nowait(pb.RelayAside.FromString(bytes(frame.data)))
            return Frame(Opcode.PONG, b"")
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            self._part += bytes(frame.data)
            if frame.fin:
                self.came.put_nowait(self._part)
                self._part = b""
        return frame


class _Factory(ServerExtensionFactory):
    name = ExtensionName(ASIDE_EXTENSION)

    def process_request_params(
        self,
        params: Sequence[tuple[str, str | None]],
        accepted_extensions: Sequence[Extension],
    ) -> tuple[list[tuple[str, str | None]], Extension]:
        return [], _Asides()


@dataclass
class Line:
    """A relayed connection with its asides."""

    connection: ServerConnection
    heard: list[pb.RelayAside] = field(default_factory=list)

    @property
    def session_id(self) -> str:
        assert self.connection.request is not None
        return self.connection.request.headers[SESSION_HEADER]

    @property
    def asides(self) -> _Asides:
        (found,) = self.connection.protocol.extensions
        assert isinstance(found, _Asides)
        return found

    async def next(self) -> bytes | pb.RelayAside | None:
        """None: it is over."""
        item = await self.asides.came.get()
        if isinstance(item, pb.RelayAside):
            self.heard.append(item)
        return item

    def say_aside(self, **said: Any) -> None:  # Any: the one field of RuntimeAside
        if not self.connection.transport.is_closing():
            self.connection.transport.write(build_aside(pb.RuntimeAside(**said).SerializeToString()))

    async def checkpoint(
        self, state: object, applied: int, *, replay_from: int = 0, is_quiet: bool = True, answers: int = 0
    ) -> None:
        self.say_aside(
            checkpoint=pb.Checkpoint(
                state=json.dumps(state).encode(),
                applied=applied,
                replay_from=replay_from or applied + 1,
                is_quiet=is_quiet,
                answers=answers,
            )
        )

    async def end(self, reason: str = "closed_by_agent", code: int = 1000) -> None:
        self.say_aside(over=pb.SessionOver(reason=reason))
        await self.connection.close(code, reason)


async def agent(runtime: AsideRuntime, line: Line) -> None:
    """The agent of this module's first lines."""
    applied, pending = 0, []  # what is said since the checkpoint, by its own account
    item = await line.next()
    if isinstance(item, pb.RelayAside):
        assert item.HasField("restore")
        if runtime.cannot_restore:
            line.say_aside(not_restored=pb.NotRestored(problem="as told"))
            return
        applied, pending = item.restore.applied, json.loads(item.restore.state)
        waiting: list[bytes] = []
        line.say_aside(restored=pb.Restored())
        while True:
            item = await line.next()
            if item is None:
                return
            if isinstance(item, bytes):
                waiting.append(item)
            elif item.HasField("go_on"):
                for each in pending[item.go_on.told :]:
                    await line.connection.send(each)
                break
        for each in waiting:
            applied += 1
            pending = await _answer(runtime, line, each, applied)
        item = await line.next()
    is_handing_over, held = False, []
    while item is not None:
        if isinstance(item, bytes) and is_handing_over:
            held.append(item)
        elif isinstance(item, bytes):
            applied += 1
            pending = await _answer(runtime, line, item, applied)
        elif item.HasField("hand_over"):
            if not runtime.is_deaf_to_hand_over:
                if runtime.may_hand_over is not None:
                    await runtime.may_hand_over.wait()
                # Everything that it said since the last checkpoint is behind it: this one holds nothing to be said.
                is_handing_over = True
                await line.checkpoint([], applied, answers=item.hand_over.number)
        elif item.HasField("stay"):
            is_handing_over = False
            for each in held:
                applied += 1
                pending = await _answer(runtime, line, each, applied)
            held = []
        elif item.HasField("moved_out"):
            await runtime.move_leg_out(line.session_id)
            await line.connection.close()
            return
        item = await line.next()


async def _answer(runtime: AsideRuntime, line: Line, message: bytes, applied: int) -> list[str | bytes]:
    text = message.decode()
    says: list[str | bytes] = [f"{applied}:{text}"]
    if text.startswith(SING):
        says += [f"{applied}/{number}" for number in range(int(text.removeprefix(SING)))]
    await line.checkpoint(says, applied, is_quiet=runtime.is_quiet)
    for each in says:
        await line.connection.send(each)
        runtime.said()
    return says


async def _run(runtime: FakeRuntime, connection: ServerConnection) -> None:
    assert isinstance(runtime, AsideRuntime)
    line = Line(connection)
    runtime.lines.append(line)

    async def drain() -> None:
        with contextlib.suppress(websockets.ConnectionClosed):
            async for _ in connection:
                pass
        line.asides.came.put_nowait(None)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(drain)
        with contextlib.suppress(websockets.ConnectionClosed):
            await runtime.talk(runtime, line)
        await connection.wait_closed()


Talk = Callable[["AsideRuntime", Line], Any]  # Any: a coroutine


@dataclass
class AsideRuntime(FakeRuntime):
    """`talk` drives each call."""

    talk: Talk = agent
    handler: Any = _run
    extensions: tuple[ServerExtensionFactory, ...] = field(default_factory=lambda: (_Factory(),))
    lines: list[Line] = field(default_factory=list)
    cannot_restore: bool = False
    is_deaf_to_hand_over: bool = False
    may_hand_over: anyio.Event | None = None
    """It answers no sooner; None: at once."""
    is_quiet: bool = True
    messages_said: int = 0
    dies_after: int = 0
    """It breaks the connection after so many messages more; 0: never."""

    def said(self) -> None:
        """One message has left."""
        self.messages_said += 1
        if self.dies_after:
            self.dies_after -= 1
            if not self.dies_after:
                self.die()

    @property
    def is_connected(self) -> bool:
        return any(not line.connection.transport.is_closing() for line in self.lines)

    def stop(self) -> None:
        """As a stopped process: connected, and neither reads nor writes."""
        self.is_stopped = True
        for line in self.lines:
            line.connection.transport.pause_reading()

    def wake(self) -> None:
        self.is_stopped = False
        for line in self.lines:
            if not line.connection.transport.is_closing():
                line.connection.transport.resume_reading()

    def die(self) -> None:
        for line in self.lines:
            line.connection.transport.abort()


def asides(line: Line, kind: str) -> list[Any]:
    """What the relay said of one kind."""
    return [getattr(each, kind) for each in line.heard if each.WhichOneof("said") == kind]
