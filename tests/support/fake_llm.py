"""A server of streamed chat completions that says what the test tells it to, and remembers what it was asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
import h11
from anyio.abc import SocketAttribute, SocketStream

__all__ = ["FakeLlm", "Pause", "calls", "fake_llm", "text"]


@dataclass(frozen=True)
class Pause:
    """The server waits here until the test lets it go on."""

    until: anyio.Event


Part: TypeAlias = str | bytes | Pause
Answer: TypeAlias = list[Part] | int


def text(*pieces: str) -> list[Part]:
    return [_chunk({"content": piece}) for piece in pieces]


def calls(*wanted: tuple[str, str]) -> list[Part]:
    """Tool calls, their arguments in two fragments as real servers send them."""
    parts: list[Part] = []
    for index, (name, arguments) in enumerate(wanted):
        half = len(arguments) // 2
        first = {"index": index, "id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": ""}}
        parts.append(_chunk({"role": "assistant", "content": None, "tool_calls": [first]}))
        for fragment in (arguments[:half], arguments[half:]):
            parts.append(_chunk({"tool_calls": [{"index": index, "function": {"arguments": fragment}}]}))
    return parts


def _chunk(delta: dict[str, Any]) -> str:
    return "data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}) + "\n\n"


@dataclass
class FakeLlm:
    """`answers`: one for each request; a number is a status without a body. `left`: clients that went before the end."""

    url: str
    answers: list[Answer]
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    left: int = 0
    has_left: anyio.Event = field(default_factory=anyio.Event)

    async def serve(self, stream: SocketStream) -> None:
        async with stream:
            http = h11.Connection(h11.SERVER)
            body = b""
            while not isinstance(event := await _event(http, stream), h11.EndOfMessage):
                if isinstance(event, h11.Request):
                    self.headers.append({name.decode(): value.decode() for name, value in event.headers})
                elif isinstance(event, h11.Data):
                    body += bytes(event.data)
            self.requests.append(json.loads(body))
            answer = self.answers.pop(0)
            status = answer if isinstance(answer, int) else 200
            head = h11.Response(status_code=status, headers=[("Content-Type", "text/event-stream"), ("Connection", "close")])
            await stream.send(http.send(head) or b"")
            for part in [] if isinstance(answer, int) else answer:
                if isinstance(part, Pause):
                    await self._pause(stream, part)
                else:
                    data = part if isinstance(part, bytes) else part.encode()
                    await stream.send(http.send(h11.Data(data=data)) or b"")
            await stream.send(http.send(h11.EndOfMessage()) or b"")

    async def _pause(self, stream: SocketStream, pause: Pause) -> None:
        """Waits, and sees it where the client goes meanwhile."""
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                try:
                    await stream.receive()
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    self.left += 1
                    self.has_left.set()
                    group.cancel_scope.cancel()

            group.start_soon(watch)
            await pause.until.wait()
            group.cancel_scope.cancel()


async def _event(http: h11.Connection, stream: SocketStream) -> Any:
    while (event := http.next_event()) is h11.NEED_DATA:
        http.receive_data(await stream.receive())
    return event


@asynccontextmanager
async def fake_llm(*answers: Answer) -> AsyncIterator[FakeLlm]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    fake = FakeLlm(f"http://127.0.0.1:{port}/v1", list(answers))

    def quietly(serve: Callable[[SocketStream], Awaitable[None]]) -> Callable[[SocketStream], Awaitable[None]]:
        async def served(stream: SocketStream) -> None:
            try:
                await serve(stream)
            except (anyio.BrokenResourceError, anyio.EndOfStream):
                return  # the client went

        return served

    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, quietly(fake.serve))
        try:
            yield fake
        finally:
            group.cancel_scope.cancel()
