"""The wires that callers of this measurement call on: what is said and heard there, in the same few words.

A numbered item is something that the server answers exactly once where it took it exactly once: on Realtime an item of the
conversation, on our own messages a key that no telephone has, which is a fault that the call survives and that names its ordinal.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import anyio
import grpc
import numpy as np
from grpc import aio
from numpy.typing import NDArray

from clients.realtime import RATE_HZ, Call, CallFailed, connect
from perf.continuity.bridge import Bridge, BridgedCall, bridge
from protos.switchboard.v1 import voice_pb2 as pb
from protos.switchboard.v1 import voice_pb2_grpc

__all__ = ["Client", "Heard", "Kind", "Line", "Opened", "opening"]

_BYTES_PER_S: Final = 2 * RATE_HZ
_PCM16_24K: Final = pb.AudioFormat(encoding=pb.AUDIO_ENCODING_PCM16, sample_rate_hz=RATE_HZ)
_NO_KEY: Final = "mark"


class Client(StrEnum):
    REALTIME = "realtime"
    """The OpenAI Realtime protocol over WebSocket."""
    GRPC = "grpc"
    """Our own messages over gRPC, through the balancer's gRPC port."""
    OPENAI = "openai"
    """The Realtime protocol as the `openai` SDK speaks it."""
    AGENTS = "agents"
    """The same as the realtime runner of `openai-agents` does."""


_ENVIRONMENTS: Final = {Client.OPENAI: ".venv-openai", Client.AGENTS: ".venv-openai-agents"}


class Kind(StrEnum):
    AUDIO = "audio"
    TRANSCRIPT = "transcript"
    """Of what the caller said in a turn."""
    ITEM = "item"
    """A numbered item was taken."""
    SAID = "said"
    """A reply's words, whole."""
    DONE = "done"
    """A reply was given to its end."""
    ERROR = "error"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Heard:
    """`name`: unique among all that a call hears. `reply` names the reply that it belongs to; `number` is an item's."""

    kind: Kind
    name: str
    reply: str = ""
    text: str = ""
    audio_s: float = 0.0
    number: int = 0


class Line(Protocol):
    """One call. Every method raises CallFailed once it is over."""

    session_id: str

    async def append(self, samples: NDArray[np.int16]) -> None: ...

    async def send_item(self, number: int) -> None: ...

    def heard(self) -> AsyncIterator[Heard]:
        """Until the server ends the call; one message may tell several things."""
        ...


Opened: TypeAlias = Callable[[str], AbstractAsyncContextManager[Line]]
"""Opens the call of a session id. Raises CallRefused or CallFailed."""


class RealtimeLine:
    def __init__(self, call: Call | BridgedCall) -> None:
        self.session_id = call.session_id
        self._call = call

    async def append(self, samples: NDArray[np.int16]) -> None:
        await self._call.append(samples)

    async def send_item(self, number: int) -> None:
        content = [{"type": "input_text", "text": f"mark {number}"}]
        item = {"id": f"mark_{number:04d}", "type": "message", "role": "system", "content": content}
        await self._call.send({"type": "conversation.item.create", "item": item})

    async def heard(self) -> AsyncIterator[Heard]:
        async for event in self._call.events():
            yield _from_event(event)


def _from_event(event: dict[str, Any]) -> Heard:
    name: str = event["event_id"]
    match event["type"]:
        case "response.output_audio.delta":
            audio_s = len(b64decode(event["delta"])) / _BYTES_PER_S
            return Heard(Kind.AUDIO, name, event["response_id"], audio_s=audio_s)
        case "conversation.item.input_audio_transcription.completed":
            return Heard(Kind.TRANSCRIPT, name, text=event["transcript"])
        case "conversation.item.added" if event["item"]["id"].startswith("mark_"):
            return Heard(Kind.ITEM, name, number=int(event["item"]["id"].removeprefix("mark_")))
        case "response.done" if event["response"]["status"] == "completed":
            return Heard(Kind.DONE, name, event["response"]["id"])
        case "response.output_audio_transcript.done":
            return Heard(Kind.SAID, name, event["response_id"], event["transcript"])
        case "error":
            return Heard(Kind.ERROR, name, text=f"{event['error']['code']}: {event['error']['message']}")
    return Heard(Kind.OTHER, name)


class GrpcLine:
    def __init__(self, stream: aio.StreamStreamCall[pb.ConverseRequest, pb.ConverseResponse]) -> None:
        self.session_id = ""
        self._stream = stream
        self._writing = anyio.Lock()
        self._said = 0
        self._items: dict[int, int] = {}

    async def begin(self, session_id: str) -> None:
        await self._say(pb.ConverseRequest(config=pb.SessionConfig(session_id=session_id, input_format=_PCM16_24K)))
        metadata = {str(key): str(value) for key, value in await self._stream.initial_metadata() or ()}
        self.session_id = metadata.get("x-switchboard-session", session_id)

    async def append(self, samples: NDArray[np.int16]) -> None:
        data = np.ascontiguousarray(samples, "<i2").tobytes()
        await self._say(pb.ConverseRequest(audio=pb.AudioChunk(data=data, format=_PCM16_24K)))

    async def send_item(self, number: int) -> None:
        await self._say(pb.ConverseRequest(dtmf=_NO_KEY), number)

    async def heard(self) -> AsyncIterator[Heard]:
        try:
            while isinstance(response := await self._stream.read(), pb.ConverseResponse):
                for heard in self.from_response(response):
                    yield heard
        except aio.AioRpcError as error:
            raise CallFailed(f"{error.code().name}: {error.details()}") from error

    def from_response(self, response: pb.ConverseResponse) -> list[Heard]:
        name, reply = str(response.ordinal), str(response.generation)
        match response.WhichOneof("payload"):
            case "reply_audio":
                return [Heard(Kind.AUDIO, name, reply, audio_s=len(response.reply_audio.chunk.data) / _BYTES_PER_S)]
            case "transcript" if response.transcript.is_final:
                return [Heard(Kind.TRANSCRIPT, name, text=response.transcript.text)]
            case "error" if response.error.ordinal in self._items:
                return [Heard(Kind.ITEM, name, number=self._items[response.error.ordinal])]
            case "error":
                return [Heard(Kind.ERROR, name, text=f"{response.error.code}: {response.error.message}")]
            case "reply_done" if response.reply_done.status == pb.REPLY_STATUS_COMPLETED:
                # One message, so one name: two of the same would count as told twice.
                return [Heard(Kind.SAID, f"{name}/said", reply, response.reply_done.text), Heard(Kind.DONE, name, reply)]
        return [Heard(Kind.OTHER, name)]

    async def _say(self, request: pb.ConverseRequest, item: int | None = None) -> None:
        async with self._writing:  # of two writes at once grpc fails one, and the call with it
            self._said += 1
            request.ordinal = self._said
            if item is not None:
                self._items[self._said] = item
            try:
                await self._stream.write(request)
            except (aio.AioRpcError, aio.UsageError, asyncio.InvalidStateError) as error:
                raise CallFailed(f"the stream is over ({error})") from error


@asynccontextmanager
async def _realtime(address: str, session_id: str) -> AsyncIterator[Line]:
    async with connect(f"{address.replace('http://', 'ws://')}/v1/realtime", session_id=session_id) as call:
        yield RealtimeLine(call)


@asynccontextmanager
async def _over_grpc(address: str, session_id: str) -> AsyncIterator[Line]:
    async with grpc.aio.insecure_channel(address, options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
        stream = voice_pb2_grpc.VoiceAgentStub(channel).Converse()
        line = GrpcLine(stream)
        try:
            await line.begin(session_id)
            yield line
        finally:
            stream.cancel()


@asynccontextmanager
async def opening(client: Client, addresses: Mapping[str, Any], pids: list[int]) -> AsyncIterator[Opened]:
    """`addresses`: as a balancer announces them. A client's own process joins `pids`. Raises ProgramFailed where a client is not
    installed."""
    web = str(addresses["public"])
    match client:
        case Client.REALTIME:
            yield partial(_realtime, web)
        case Client.GRPC:
            yield partial(_over_grpc, str(addresses["public_grpc"]))
        case Client.OPENAI | Client.AGENTS:
            async with bridge(client.value, _ENVIRONMENTS[client], f"{web.replace('http://', 'ws://')}/v1") as carrying:
                pids.append(carrying.pid)
                yield partial(_bridged, carrying)


@asynccontextmanager
async def _bridged(carrying: Bridge, session_id: str) -> AsyncIterator[Line]:
    async with carrying.dial(session_id) as call:
        yield RealtimeLine(call)
