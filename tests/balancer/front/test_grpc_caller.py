"""A gRPC stream as a transport of frames, with a stream and a protocol that do as they are told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from balancer.front.grpc_caller import GrpcCaller, StreamClosed
from balancer.front.message_frames import client_frame
from protos.switchboard.v1 import voice_pb2 as pb
from runtime.wire.websocket_frames import CLOSE, PING, PONG, build_frame, close_payload
from tests.balancer.support.running import until

pytestmark = pytest.mark.anyio

END = pb.ConverseRequest(ordinal=2, end=pb.EndSession()).SerializeToString()
END_OF_INPUT = pb.ConverseRequest(ordinal=2, end_of_input=pb.EndOfInput()).SerializeToString()
HANG_UP = client_frame(pb.ConverseRequest(end=pb.EndSession(after_reply=True)).SerializeToString())


@dataclass
class Stream:
    """`reads` False: what is written is not taken, until it does, but for as many messages as `takes`."""

    reads: bool = True
    takes: int = 0
    is_gone: bool = False
    written: list[bytes] = field(default_factory=list)
    taken: int = 0

    def __post_init__(self) -> None:
        self._said, self._hears = anyio.create_memory_object_stream[bytes | None](100)

    def say(self, *messages: bytes | None) -> None:
        """None: the caller half-closes."""
        for message in messages:
            self._said.send_nowait(message)

    async def read(self) -> bytes | None:
        message = await self._hears.receive()
        self.taken += 1
        return message

    async def write(self, message: bytes) -> None:
        if self.is_gone:
            raise StreamClosed
        self.written.append(message)
        await until(lambda: self.reads or self.takes > 0)
        self.takes -= not self.reads

    def close(self) -> None:
        self._said.close()
        self._hears.close()


@dataclass
class Owner(asyncio.Protocol):
    """The relay's leg: what it is told."""

    heard: list[bytes] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def data_received(self, data: bytes) -> None:
        self.heard.append(data)

    def eof_received(self) -> bool:
        self.told.append("eof")
        return True

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")

    def connection_lost(self, _error: Exception | None) -> None:
        self.told.append("lost")


@dataclass
class Held:
    caller: GrpcCaller
    stream: Stream
    owner: Owner
    is_over: bool = False


@asynccontextmanager
async def caller(**told: Any) -> AsyncIterator[Held]:
    """Runs until it ends or the block does, which is the caller's cancel. `told`: of the stream."""
    stream = Stream(**told)
    held = Held(GrpcCaller(stream), stream, Owner())
    held.caller.set_write_buffer_limits(100, 20)
    held.caller.set_protocol(held.owner)

    async def run() -> None:
        await held.caller.run()
        held.is_over = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        yield held
        tasks.cancel_scope.cancel()
    held.stream.close()
    assert held.owner.told.count("lost") == 1


async def test_each_message_is_a_frame_each_way() -> None:
    async with caller() as held:
        held.stream.say(b"one", b"x" * 640)
        await until(lambda: len(held.owner.heard) == 2)
        assert held.owner.heard == [client_frame(b"one"), client_frame(b"x" * 640)]
        held.caller.write(build_frame(2, b"first") + build_frame(2, b"y" * 640))
        held.caller.write(build_frame(2, b""))
        await until(lambda: len(held.stream.written) == 3)
        assert held.stream.written == [b"first", b"y" * 640, b""]
        await until(lambda: held.caller.get_write_buffer_size() == 0)


async def test_a_ping_is_answered_for_it() -> None:
    async with caller() as held:
        held.caller.write(build_frame(PING, b"how"))
        await until(lambda: held.owner.heard == [build_frame(PONG, b"how", bytes(4))])
        assert held.stream.written == []


async def test_a_close_is_its_status_behind_all_that_was_said() -> None:
    async with caller(reads=False) as held:
        held.caller.write(build_frame(2, b"ended") + build_frame(CLOSE, close_payload(1000, "closed_by_agent")))
        await until(lambda: held.stream.written == [b"ended"])
        assert held.owner.heard == []
        held.stream.reads = True
        await until(lambda: held.owner.heard == [build_frame(CLOSE, close_payload(1000, "closed_by_agent"), bytes(4))])
        held.caller.close()
        await until(lambda: held.is_over)
        assert held.caller.status == ("OK", "closed_by_agent")
        assert held.owner.told == ["lost"]


async def test_who_does_not_read_pauses_and_is_resumed() -> None:  # requirement V5
    async with caller(reads=False) as held:
        held.caller.write(build_frame(2, b"a" * 60))
        assert held.owner.told == []
        held.caller.write(build_frame(2, b"b" * 60))
        assert held.owner.told == ["pause"]
        assert held.caller.get_write_buffer_size() == 120
        held.caller.write(build_frame(2, b"c" * 60))
        assert held.owner.told == ["pause"]
        held.stream.reads = True
        await until(lambda: len(held.stream.written) == 3)
        await until(lambda: held.owner.told == ["pause", "resume"])


async def test_who_reads_a_little_stays_paused_down_to_the_low_mark() -> None:
    async with caller(reads=False) as held:
        for _ in range(3):
            held.caller.write(build_frame(2, b"a" * 60))
        held.stream.takes = 2
        await until(lambda: len(held.stream.written) == 3)
        assert (held.caller.get_write_buffer_size(), held.owner.told) == (60, ["pause"])
        held.stream.takes = 1
        await until(lambda: held.owner.told == ["pause", "resume"])


async def test_who_never_reads_is_done_with_at_once_and_told_when_it_does() -> None:  # requirement V5
    async with caller(reads=False) as held:
        for _ in range(3):
            held.caller.write(build_frame(2, b"a" * 60))
        await until(lambda: len(held.stream.written) == 1)
        held.caller.abort()
        await until(lambda: held.owner.told == ["pause", "lost"])
        assert held.caller.get_write_buffer_size() == 0
        assert not held.is_over
        held.caller.write(build_frame(2, b"too late"))
        held.stream.reads = True
        await until(lambda: held.is_over)
        assert held.stream.written == [b"a" * 60]
        assert held.caller.status == ("RESOURCE_EXHAUSTED", "slow_caller")


async def test_a_pause_leaves_what_the_caller_says_unread() -> None:
    async with caller() as held:
        await until(lambda: held.stream._hears.statistics().tasks_waiting_receive == 1)  # the read that is under way
        held.caller.pause_reading()
        held.stream.say(b"one", b"two", b"three")
        await until(lambda: held.owner.heard == [client_frame(b"one")])
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert held.stream.taken == 1
        held.caller.resume_reading()
        await until(lambda: len(held.owner.heard) == 3)


@pytest.mark.parametrize(
    ("said", "heard", "told"),
    [
        ([END], [], []),
        ([END_OF_INPUT], [HANG_UP], []),
        ([END_OF_INPUT, b"\xff"], [HANG_UP], []),
        ([END_OF_INPUT, END], [], []),
        ([b"\xff"], [], ["eof"]),
        ([], [], ["eof"]),
    ],
)
async def test_what_a_half_close_means(said: list[bytes], heard: list[bytes], told: list[str]) -> None:
    async with caller() as held:
        held.stream.say(*said, None)
        await until(lambda: held.stream.taken == len(said) + 1)
        await until(lambda: held.owner.heard[len(said) :] == heard)
        assert held.owner.told == told


async def test_a_lost_call_has_the_status_that_a_runtime_gives_it() -> None:
    async with caller() as held:
        held.stream.say(None)
        await until(lambda: held.owner.told == ["eof"])
        held.caller.abort()
        await until(lambda: held.is_over)
        assert held.caller.status == ("CANCELLED", "connection_lost")


async def test_a_stream_that_is_gone_ends_it() -> None:
    async with caller(is_gone=True) as held:
        held.caller.write(build_frame(2, b"to nobody"))
        await until(lambda: held.is_over)
        assert held.owner.told == ["lost"]
        held.stream.say(b"late")
        assert held.owner.heard == []
