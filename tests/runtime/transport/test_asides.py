"""Asides are taken out of a call's stream, in their order, and offered to nobody who is no relay."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from google.protobuf.message import Message
from websockets.exceptions import ProtocolError
from websockets.frames import Frame, Opcode

from protos.switchboard.v1 import continuity_pb2 as pb
from runtime.transport.asides import AsideExtension, Asides
from runtime.wire.asides import ASIDE_EXTENSION, build_aside
from runtime.wire.websocket_frames import FrameBorders, build_frame
from tests.support.local_runtime import LocalRuntime, local_runtime
from tests.support.raw_websocket import RawCaller, raw_caller

pytestmark = pytest.mark.anyio

_OFFER = f"Sec-WebSocket-Extensions: {ASIDE_EXTENSION}\r\n"


def _aside(message: Message) -> bytes:
    return message.SerializeToString()


def _frame(data: bytes, **bits: bool) -> Frame:
    return Frame(Opcode.BINARY, data, **{"rsv3": True, **bits})


def test_an_aside_goes_no_further() -> None:
    extension = AsideExtension()
    passed = extension.decode(_frame(b"aside"))
    assert (passed.opcode, bytes(passed.data)) == (Opcode.PONG, b"")
    passed.check()
    assert list(extension.taken) == [b"aside"]
    plain = Frame(Opcode.TEXT, b"words")
    assert extension.decode(plain) is plain


@pytest.mark.parametrize("bits", [{"fin": False}, {"rsv1": True}, {"rsv2": True}])
def test_the_bit_on_anything_else_is_a_breach(bits: dict[str, bool]) -> None:
    with pytest.raises(ProtocolError):
        AsideExtension().decode(_frame(b"", **bits)).check()


def test_a_flood_of_asides_is_a_breach() -> None:
    extension = AsideExtension()
    with pytest.raises(ProtocolError, match="too many"):  # noqa: PT012  # which one is too many is not the point
        for _ in range(1_000):
            extension.decode(_frame(b"x"))


async def test_what_is_no_aside_is_skipped() -> None:
    extension = AsideExtension()
    asides = Asides(extension, None)  # type: ignore[arg-type]  # nothing is said here
    for data in (b"\xff", b"", _aside(pb.RelayAside(stay=pb.Stay()))):
        extension.decode(_frame(data))
    with anyio.fail_after(20):
        assert (await asides.take()).WhichOneof("said") == "stay"


@asynccontextmanager
async def _caller(local: LocalRuntime, headers: str) -> AsyncIterator[RawCaller]:
    async with raw_caller(local.url, headers=headers) as caller:
        await caller.until_contains("session.created")
        yield caller


async def test_a_direct_caller_is_told_no_asides() -> None:  # requirement O5
    async with local_runtime() as local, _caller(local, _OFFER) as caller:
        await caller.stream.send(build_aside(_aside(pb.RelayAside(hand_over=pb.HandOver(number=1))), bytes(4)))
        await caller.say(type="input_audio_buffer.clear")
        await caller.until_contains("input_audio_buffer.cleared")
        borders = FrameBorders(is_masked=False, max_frame_bytes=1 << 20)
        borders.feed(caller.read)
        assert borders.failure is None  # an aside would be reserved bits
        assert local.ledger.active == 1


async def test_the_bit_without_the_extension_ends_the_call() -> None:
    async with local_runtime() as local, _caller(local, "") as caller:
        await caller.stream.send(build_frame(0x12, b"", bytes(4)))
        assert await caller.until_over() == 1002
