"""The HTTP port: what listens, what is refused, and that it ends in bounded time."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from runtime.transport.http_server import HttpServer, listen
from tests.support.local_runtime import local_runtime, until
from tests.support.raw_websocket import raw_caller, raw_connection

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def _serving(request_s: float = 1.0) -> AsyncIterator[tuple[HttpServer, str]]:
    async def hello(_: Request) -> PlainTextResponse:
        return PlainTextResponse("hello")

    server = HttpServer(Starlette(routes=[Route("/", hello)]), 20.0, request_s)
    with listen("127.0.0.1", 0) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        async with anyio.create_task_group() as group:
            group.start_soon(server.run, listener)
            yield server, address
            with anyio.fail_after(10):
                await server.stop()


async def _until_closed(stream: anyio.abc.SocketStream) -> bytes:
    received = b""
    with anyio.fail_after(20):
        try:
            while True:
                received += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return received


def test_a_taken_port_is_an_error() -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(OSError, match="in use"):
        listen("127.0.0.1", taken.getsockname()[1])


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_version_6_addresses_listen_too() -> None:
    with listen("::1", 0) as listener:
        assert listener.family is socket.AF_INET6


async def test_requests_are_answered_one_after_another() -> None:
    async with _serving() as (_, address), raw_connection(address) as stream:
        for _ in range(2):
            await stream.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            with anyio.fail_after(10):
                assert (await stream.receive()).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf"])
async def test_a_request_that_does_not_come_whole_is_dropped(sent: bytes) -> None:
    async with _serving() as (_, address), raw_connection(address) as stream:
        if sent:
            await stream.send(sent)
        await _until_closed(stream)


async def test_a_second_request_has_to_come_whole_as_well() -> None:
    async with _serving() as (_, address), raw_connection(address) as stream:
        await stream.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HT")
        assert (await _until_closed(stream)).count(b"200 OK") == 1


async def test_stop_closes_what_is_open() -> None:
    async with _serving(request_s=600.0) as (server, address), raw_connection(address) as stream:
        await stream.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        with anyio.fail_after(10):
            await stream.receive()
            await server.stop()
        assert await _until_closed(stream) == b""
        with pytest.raises(OSError, match="refused"):
            async with raw_connection(address):
                pass


async def test_media_is_a_sign_of_life_as_good_as_a_pong() -> None:  # bug R56
    """A peer whose pongs are lost but whose media comes is alive; silent, it is given up."""
    ping = b"\x89\x04"
    async with local_runtime(ping_interval_s=0.2) as local, raw_caller(local.url) as caller:
        with anyio.fail_after(20):
            while caller.read.count(ping) < 4:
                await caller.say(type="input_audio_buffer.clear")
                with anyio.move_on_after(0.05):
                    caller.read += await caller.stream.receive()
        assert local.ledger.active == 1
        assert await caller.until_over() == 1011


class _Busy:
    """Takes no message before it may."""

    def __init__(self) -> None:
        self.may_take = anyio.Event()
        self.taken: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        websocket = WebSocket(scope, receive, send)
        await websocket.accept()
        await self.may_take.wait()
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                self.taken.append(await websocket.receive_text())


async def test_a_ping_behind_a_message_is_answered_while_nobody_takes_it() -> None:  # bug R56
    app = _Busy()
    server = HttpServer(app, 20.0, 1.0)
    with listen("127.0.0.1", 0) as listener:
        async with anyio.create_task_group() as group:
            group.start_soon(server.run, listener)
            async with raw_caller(f"ws://127.0.0.1:{listener.getsockname()[1]}") as caller:
                for number in range(50):
                    await caller.send(1, b"%d" % number)
                await caller.send(9, b"alive?")
                await caller.until_contains("alive?")
                assert not app.taken
                app.may_take.set()
                await until(lambda: len(app.taken) == 50)
                assert app.taken == [str(number) for number in range(50)]
            await server.stop()


async def test_what_is_read_ahead_is_bounded() -> None:  # bug R56
    app = _Busy()
    server = HttpServer(app, 20.0, 1.0)
    with listen("127.0.0.1", 0) as listener:
        async with anyio.create_task_group() as group:
            group.start_soon(server.run, listener)
            async with raw_caller(f"ws://127.0.0.1:{listener.getsockname()[1]}") as caller:
                sent = 0
                with anyio.move_on_after(0.5):  # until the sockets between are full
                    while True:
                        await caller.send(1, b"x" * 60_000)
                        sent += 1
                app.may_take.set()
                await until(lambda: len(app.taken) >= sent)
                assert sent < 200
            await server.stop()
