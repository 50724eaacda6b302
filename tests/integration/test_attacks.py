"""The attacks on the front door, over raw sockets: each is refused, disturbs nobody else, and leaves nothing held."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from tests.integration.test_bad_input import Site, read_to_the_end, site
from tests.support.local_runtime import until
from tests.support.raw_websocket import raw_caller, raw_connection

pytestmark = pytest.mark.anyio

UPGRADE = (
    "GET /v1/realtime HTTP/1.1\nHost: x\nUpgrade: websocket\nConnection: Upgrade\n"
    "Sec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n"
)
POST = "POST /v1/assignments HTTP/1.1\nHost: x\n"
KEY = bytes(4)


@asynccontextmanager
async def beside_another(at: Site) -> AsyncIterator[None]:
    """Another caller's call, which must be served before and after; nothing else may be held when the block ends."""
    front = at.enrolled.service.balancer.front
    async with raw_caller(at.enrolled.service.url) as other:
        await other.say(type="session.update", session={})
        await other.until_contains("session.updated")
        yield
        await until(lambda: front.statistics()["connections"] == 1)
        await until(lambda: (at.enrolled.local.ledger.active, at.enrolled.local.ledger.reserved) == (1, 0))
        await other.say(type="input_audio_buffer.clear")
        await other.until_contains("input_audio_buffer.cleared")
        await other.send(8, (1000).to_bytes(2, "big"))
        assert await other.until_over() == 1000
    await until(lambda: front.statistics()["connections"] == front.statistics()["relayed"] == 0)
    await until(lambda: front.statistics()["buffered_bytes"] == front.statistics()["replay_bytes"] == 0)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param(POST + "Content-Length: 2\nTransfer-Encoding: chunked\n\n{}", 501, id="length-and-chunked"),
        pytest.param(POST + "Content-Length: 2\nContent-Length: 30\n\n{}", 400, id="two-lengths"),
        pytest.param(POST + "Content-Length: 2\nContent-Length: 2\n\n{}", 400, id="one-length-twice"),
        pytest.param(POST + "Content-Length: 2, 30\n\n{}", 400, id="a-list-of-lengths"),
        pytest.param(POST + "Content-Length: +2\n\n{}", 400, id="a-signed-length"),
        pytest.param(UPGRADE + "X-A: b\n Content-Length: 9\n\n", 400, id="a-folded-header"),
        pytest.param(UPGRADE + "X-A : b\n\n", 400, id="a-space-before-the-colon"),
        pytest.param((UPGRADE + "X-A: b\n").replace("\n", "\r\n") + "X-B: c\n\r\n", 400, id="a-bare-LF"),
        pytest.param((UPGRADE + "X-A: b\rX-B: c\n\n"), 400, id="a-bare-CR"),
        pytest.param(UPGRADE + "X-A: b\0c\n\n", 400, id="a-NUL"),
        pytest.param(UPGRADE + "Transfer-Encoding: chunked\n\n0\n\n", 501, id="a-chunked-upgrade"),
        pytest.param(UPGRADE + "Transfer-Encoding: xchunked\n\n", 501, id="a-disguised-coding"),
        pytest.param(UPGRADE + "X-A: " + "b" * 20_000 + "\n\n", 431, id="a-long-header"),
        pytest.param(UPGRADE + "".join(f"X-{number}: b\n" for number in range(3_000)), 431, id="headers-without-end"),
        pytest.param(UPGRADE + "".join(f"X-{number}: b\n" for number in range(3_000)) + "\n", 431, id="many-headers"),
    ],
)
async def test_a_smuggled_or_oversized_head_is_refused(head: str, status: int) -> None:
    async with site(is_relayed=True) as at, beside_another(at):
        raw = head if "\r\n" in head else head.replace("\n", "\r\n")
        async with raw_connection(at.http_address) as stream:
            with contextlib.suppress(anyio.BrokenResourceError):  # refused before all of it is sent
                await stream.send(raw.encode("latin-1"))
            answer = await read_to_the_end(stream)
        assert answer.startswith(f"HTTP/1.1 {status}".encode()), answer[:200]
        assert answer.count(b"HTTP/1.1 ") == 1


async def test_a_request_behind_an_upgrade_is_no_request() -> None:
    async with site(is_relayed=True) as at, beside_another(at), raw_connection(at.http_address) as stream:
        before = at.enrolled.service.balancer.placer.counts.attempted
        smuggled = POST + "Content-Length: 2\n\n{}"
        await stream.send((UPGRADE + "\n" + smuggled).replace("\n", "\r\n").encode())
        answer = await read_to_the_end(stream)
        assert answer.startswith(b"HTTP/1.1 101")
        assert answer.count(b"HTTP/1.1 ") == 1
        assert (1002).to_bytes(2, "big") in answer.partition(b"\r\n\r\n")[2]
        assert at.enrolled.service.balancer.placer.counts.attempted == before + 1


async def test_a_slow_head_is_timed_out() -> None:
    async with site(is_relayed=True) as at, beside_another(at), raw_connection(at.http_address) as stream:
        await stream.send(UPGRADE.replace("\n", "\r\n").encode())
        assert (await read_to_the_end(stream)).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("where", ["first", "later"])
@pytest.mark.parametrize(
    ("frames", "code"),
    [
        pytest.param(b"\x81\xff" + b"\xff" * 8 + KEY, 1002, id="a-length-with-the-highest-bit"),
        pytest.param(b"\x81\xff" + (2**40).to_bytes(8, "big") + KEY, 1009, id="a-length-beyond-the-limit"),
        pytest.param(b"\x81\xfe\x00\x02" + KEY + b"{}", 1002, id="two-bytes-for-a-short-length"),
        pytest.param(b"\x81\xff" + (2).to_bytes(8, "big") + KEY + b"{}", 1002, id="eight-bytes-for-a-short-length"),
        pytest.param(b"\x81\x02{}", 1002, id="no-mask"),
        pytest.param(b"\x92\x80" + KEY, 1002, id="an-aside"),
        pytest.param(b"\xc1\x80" + KEY, 1002, id="a-compressed-frame"),
        pytest.param(b"\x89\xfe\x00\x7e" + KEY + bytes(126), 1002, id="a-long-ping"),
        pytest.param(b"\x09\x80" + KEY, 1002, id="a-fragmented-ping"),
        pytest.param(b"\x80\x80" + KEY, 1002, id="an-end-without-a-start"),
        pytest.param(b"\x88\x81" + KEY + b"\x03", 1002, id="half-a-close-code"),
    ],
)
async def test_a_lying_frame_ends_its_own_call(frames: bytes, code: int, where: str) -> None:
    async with site(is_relayed=True) as at, beside_another(at), raw_caller(at.url) as caller:
        if where == "later":
            await caller.say(type="session.update", session={})
            await caller.until_contains("session.updated")
        await caller.stream.send(frames)
        assert await caller.until_over() == code


@pytest.mark.parametrize("payload_bytes", [0, 1, 60_000])
async def test_a_message_that_never_ends_is_bounded(payload_bytes: int) -> None:
    async with site(is_relayed=True) as at, beside_another(at), raw_caller(at.url) as caller:
        await caller.say(type="session.update", session={})
        await caller.until_contains("session.updated")
        size = payload_bytes.to_bytes(2, "big")
        length = b"\xfe" + size if payload_bytes > 125 else bytes((0x80 | payload_bytes,))
        piece = length + KEY + b" " * payload_bytes
        pieces = max(1, 60_000 // len(piece))
        sent = 0
        with contextlib.suppress(anyio.BrokenResourceError):  # it is refused while we still send
            await caller.stream.send(b"\x01" + piece)
            while sent < 40_000_000:
                await caller.stream.send((b"\x00" + piece) * pieces)
                sent += pieces * len(piece)
        assert await caller.until_over() in (1009, None)  # None: the reset of what it still sent overtook the close
        assert sent < 20_000_000


async def test_a_flood_of_pings_is_refused() -> None:
    async with site(is_relayed=True) as at, beside_another(at), raw_caller(at.url) as caller:
        await caller.say(type="session.update", session={})
        await caller.until_contains("session.updated")
        flood = b"".join(b"\x89\x84" + KEY + number.to_bytes(4, "big") for number in range(20_000))
        with contextlib.suppress(anyio.BrokenResourceError):
            for _ in range(40):
                await caller.stream.send(flood)
        assert await caller.until_over() in (1008, None)  # None: the reset of what it still sent overtook the close


async def test_pings_are_answered_once_a_read_and_not_to_who_does_not_read() -> None:
    async with site(is_relayed=True) as at, beside_another(at), raw_caller(at.url) as caller:
        await caller.say(type="session.update", session={})
        await caller.until_contains("session.updated")
        caller.read = b""
        for batch in range(20):
            pings = (b"\x89\x84" + KEY + b"%04d" % number for number in range(batch * 200, batch * 200 + 200))
            await caller.stream.send(b"".join(pings))
            await caller.until_contains(f"{batch * 200 + 199:04d}")
        assert caller.read.count(b"\x8a\x04") < 200
        await caller.send(8, (1000).to_bytes(2, "big"))
        assert await caller.until_over() == 1000
