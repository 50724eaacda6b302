"""One caller, two wires: what a scripted conversation needs of a wire, with everything it is told in the same few words.

| kind | holds |
|---|---|
| started | text: session id |
| speech_started, speech_stopped, reply_started | |
| transcript, reply_text, reply_done, error, ended | text |
| audio | audio: PCM16 at 24 kHz |
| tool_call, tool_result | text: its JSON |

`flush` is the WebSocket wire's response that ends `cancelled`, and the gRPC wire's own message.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
import grpc
import numpy as np
from grpc import aio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from protos.switchboard.v1 import voice_pb2 as pb
from protos.switchboard.v1 import voice_pb2_grpc
from tests.support.local_runtime import LocalRuntime

__all__ = ["WIRES", "Caller", "Refused", "Told", "speech"]

RATE_HZ = 24_000
PCM16_24K = pb.AudioFormat(encoding=pb.AUDIO_ENCODING_PCM16, sample_rate_hz=RATE_HZ)


@dataclass(frozen=True)
class Told:
    kind: str
    generation: int = 0
    text: str = ""
    audio: bytes = b""


class Refused(Exception):
    """The call never was. `retry_ms` 0: nothing was said of trying again."""

    def __init__(self, status: str, reason: str, retry_ms: int) -> None:
        self.status, self.reason, self.retry_ms = status, reason, retry_ms
        super().__init__(f"{status} {reason} {retry_ms}")


def speech(voiced_s: float = 0.5, silent_s: float = 0.8) -> bytes:
    """Sound that the synthetic detector takes for speech, then silence: a turn."""
    count = int(voiced_s * RATE_HZ)
    tone = np.where(np.arange(count) // 24 % 2, 8_000, -8_000).astype("<i2").tobytes()
    return tone + bytes(2 * int(silent_s * RATE_HZ))


class Caller(Protocol):
    """One call. `told` grows while the block that made it lasts."""

    told: list[Told]
    end_status: str
    """How the server's side ended: a close code and reason, or a gRPC status; empty while it goes on."""

    async def say(self, pcm: bytes) -> None: ...

    async def type(self, text: str) -> None: ...

    async def send_nonsense(self) -> None:
        """A message that the wire allows and nobody knows."""
        ...

    async def say_goodbye(self) -> None: ...

    def vanish(self) -> None: ...

    def of(self, kind: str) -> list[Told]: ...

    async def until(self, kind: str, count: int = 1) -> Told: ...

    async def until_over(self) -> str: ...


class _Listener:
    def __init__(self) -> None:
        self.told: list[Told] = []
        self.end_status = ""
        self._news = anyio.Event()

    def of(self, kind: str) -> list[Told]:
        return [each for each in self.told if each.kind == kind]

    async def until(self, kind: str, count: int = 1) -> Told:
        with anyio.fail_after(20):
            while len(self.of(kind)) < count:
                assert not self.end_status, f"the call ended {self.end_status!r} before {kind} {count}: {self.told[-5:]}"
                self._news = anyio.Event()
                await self._news.wait()
        return self.of(kind)[count - 1]

    async def until_over(self) -> str:
        with anyio.fail_after(20):
            while not self.end_status:
                self._news = anyio.Event()
                await self._news.wait()
        return self.end_status

    def hear(self, told: Told | None) -> None:
        if told is not None:
            self.told.append(told)
            self._news.set()

    def over(self, status: str) -> None:
        self.end_status = status
        self._news.set()


class WebSocketCaller(_Listener):
    def __init__(self, connection: ClientConnection) -> None:
        super().__init__()
        self._connection = connection
        self._started = False

    async def _send(self, **event: Any) -> None:
        await self._connection.send(json.dumps(event))

    async def configure(self) -> None:
        await self._send(type="session.update", session={"type": "realtime"})

    async def say(self, pcm: bytes) -> None:
        for start in range(0, len(pcm), 4_800):
            audio = b64encode(pcm[start : start + 4_800]).decode()
            await self._send(type="input_audio_buffer.append", audio=audio)

    async def type(self, text: str) -> None:
        part = {"type": "input_text", "text": text}
        await self._send(type="conversation.item.create", item={"type": "message", "role": "user", "content": [part]})
        await self._send(type="response.create")

    async def send_nonsense(self) -> None:
        await self._send(type="make.tea")

    async def say_goodbye(self) -> None:
        await self._connection.close()

    def vanish(self) -> None:
        self._connection.transport.abort()

    async def listen(self) -> None:
        try:
            async for message in self._connection:
                event = json.loads(message)
                assert event["event_id"]
                for told in _from_realtime(event):
                    self.hear(told)
        except ConnectionClosed:
            pass
        got = self._connection.protocol.close_rcvd
        self.over(f"{got.code} {got.reason}".strip() if got is not None else "lost")


def _from_realtime(event: dict[str, Any]) -> list[Told]:
    generation = int(str(event.get("response_id", "resp_0")).split("_")[1])
    match event["type"]:
        case "session.created":
            return [Told("started", text=event["session"]["id"])]
        case "input_audio_buffer.speech_started":
            return [Told("speech_started")]
        case "input_audio_buffer.speech_stopped":
            return [Told("speech_stopped")]
        case "conversation.item.input_audio_transcription.completed":
            return [Told("transcript", text=event["transcript"])]
        case "response.created":
            return [Told("reply_started", int(event["response"]["id"].split("_")[1]))]
        case "response.output_audio_transcript.delta":
            return [Told("reply_text", generation, event["delta"])]
        case "response.output_audio.delta":
            return [Told("audio", generation, audio=b64decode(event["delta"]))]
        case "response.output_item.added" if event["item"]["type"] == "mcp_call":
            return [Told("tool_call", generation, event["item"]["arguments"])]
        case "response.output_item.done" if event["item"]["type"] == "mcp_call":
            return [Told("tool_result", generation, event["item"]["output"] or "")]
        case "response.done":
            response = event["response"]
            number = int(response["id"].split("_")[1])
            text = "".join(part["transcript"] for item in response["output"] for part in item.get("content", ()))
            flush = [Told("flush", number)] if response["status"] == "cancelled" else []
            return [*flush, Told("reply_done", number, text)]
        case "error":
            error = event["error"]
            return [Told("ended" if error["type"] == "server_error" else "error", text=error["code"])]
    return []


@asynccontextmanager
async def _websocket(local: LocalRuntime, session_id: str = "", url: str = "", configures: bool = True) -> AsyncIterator[Caller]:
    headers = {"x-switchboard-session": session_id} if session_id else {}
    try:
        connection = await connect(url or local.url, additional_headers=headers, max_queue=4096, ping_interval=None)
    except InvalidStatus as error:
        response = error.response
        body = json.loads(response.body or b"{}")
        retry_ms = 1_000 * int(response.headers.get("Retry-After", "0"))
        raise Refused(str(response.status_code), body["error"]["code"], retry_ms) from None
    caller = WebSocketCaller(connection)
    async with anyio.create_task_group() as group:
        group.start_soon(caller.listen)
        if configures:
            await caller.configure()
        try:
            yield caller
        finally:
            group.cancel_scope.cancel()
            connection.transport.abort()


class GrpcCaller(_Listener):
    def __init__(self, stream: aio.StreamStreamCall[pb.ConverseRequest, pb.ConverseResponse]) -> None:
        super().__init__()
        self.stream = stream
        self.is_leaving = False

    async def configure(self, session_id: str) -> None:
        await self.stream.write(pb.ConverseRequest(config=pb.SessionConfig(session_id=session_id, input_format=PCM16_24K)))

    async def say(self, pcm: bytes) -> None:
        for start in range(0, len(pcm), 4_800):
            chunk = pb.AudioChunk(data=pcm[start : start + 4_800], format=PCM16_24K)
            await self.stream.write(pb.ConverseRequest(audio=chunk))

    async def type(self, text: str) -> None:
        await self.stream.write(pb.ConverseRequest(text=text))

    async def send_nonsense(self) -> None:
        await self.stream.write(pb.ConverseRequest())

    async def say_goodbye(self) -> None:
        await self.stream.write(pb.ConverseRequest(end=pb.EndSession()))

    def vanish(self) -> None:
        self.stream.cancel()

    async def listen(self) -> None:
        """The ordinals of what is told are checked on the way."""
        ordinal = len(self.told)
        while not self.stream.cancelled():
            try:
                response = await self.stream.read()
            except aio.AioRpcError:
                break
            except asyncio.CancelledError:
                if self.is_leaving or not self.stream.cancelled():
                    raise
                break  # grpc's word for a read from a call that this side has cancelled
            if not isinstance(response, pb.ConverseResponse):
                break
            ordinal += 1
            assert response.ordinal == ordinal
            self.hear(_from_grpc(response))
        self.over((await self.stream.code()).name)


def _from_grpc(response: pb.ConverseResponse) -> Told | None:
    generation = response.generation
    match response.WhichOneof("payload"):
        case "started":
            return Told("started", text=response.started.session_id)
        case "speech_started" | "speech_stopped" | "reply_started" | "flush" as kind:
            return Told(kind, generation)
        case "transcript":
            return Told("transcript", text=response.transcript.text)
        case "reply_text":
            return Told("reply_text", generation, response.reply_text.delta)
        case "reply_audio":
            assert response.reply_audio.chunk.format == PCM16_24K
            return Told("audio", generation, audio=response.reply_audio.chunk.data)
        case "tool_call":
            return Told("tool_call", generation, response.tool_call.arguments_json)
        case "tool_result":
            return Told("tool_result", generation, response.tool_result.result_json)
        case "reply_done":
            return Told("reply_done", generation, response.reply_done.text)
        case "error":
            return Told("error", text=response.error.code)
        case "ended":
            return Told("ended", text=response.ended.reason)
    return None


@asynccontextmanager
async def _grpc(local: LocalRuntime, session_id: str = "", url: str = "", configures: bool = True) -> AsyncIterator[Caller]:
    async with aio.insecure_channel(url or local.runtime.grpc_address) as channel:
        stream = voice_pb2_grpc.VoiceAgentStub(channel).Converse()
        caller = GrpcCaller(stream)
        if configures:
            await caller.configure(session_id)
            first: object = None
            with contextlib.suppress(aio.AioRpcError):  # where the refusal is there already
                first = await stream.read()
            if not isinstance(first, pb.ConverseResponse):
                raise await _refusal(stream)
            assert first.ordinal == 1
            caller.hear(_from_grpc(first))
        async with anyio.create_task_group() as group:
            group.start_soon(caller.listen)
            try:
                yield caller
            finally:
                caller.is_leaving = True
                group.cancel_scope.cancel()
                stream.cancel()


async def _refusal(stream: aio.StreamStreamCall[pb.ConverseRequest, pb.ConverseResponse]) -> Refused:
    trailers = {str(key): str(value) for key, value in await stream.trailing_metadata() or ()}
    code: grpc.StatusCode = await stream.code()
    return Refused(code.name, trailers.get("refusal-reason", ""), int(trailers.get("retry-after-ms", "0")))


WIRES: dict[str, Callable[..., AbstractAsyncContextManager[Caller]]] = {"websocket": _websocket, "grpc": _grpc}
