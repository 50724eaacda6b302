"""Our own messages over gRPC."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import grpc
from grpc import aio

from protos.switchboard.v1 import voice_pb2 as pb
from protos.switchboard.v1 import voice_pb2_grpc
from tests.conformance.callers import RATE_HZ, Caller, Listener, Refused, Told
from tests.support.local_runtime import LocalRuntime

__all__ = ["PCM16_24K", "configuration", "from_message", "over_grpc"]

PCM16_24K = pb.AudioFormat(encoding=pb.AUDIO_ENCODING_PCM16, sample_rate_hz=RATE_HZ)


def configuration(session_id: str) -> pb.SessionConfig:
    return pb.SessionConfig(session_id=session_id, input_format=PCM16_24K, tools=[pb.ClientTool(name="client_look")])


class GrpcCaller(Listener):
    def __init__(self, stream: aio.StreamStreamCall[pb.ConverseRequest, pb.ConverseResponse]) -> None:
        super().__init__()
        self.stream = stream
        self.is_leaving = False

    async def configure(self, session_id: str) -> None:
        await self.stream.write(pb.ConverseRequest(config=configuration(session_id)))

    async def say(self, pcm: bytes) -> None:
        for start in range(0, len(pcm), 4_800):
            chunk = pb.AudioChunk(data=pcm[start : start + 4_800], format=PCM16_24K)
            await self.stream.write(pb.ConverseRequest(audio=chunk))

    async def type(self, text: str) -> None:
        await self.stream.write(pb.ConverseRequest(text=text))

    async def answer_tool(self, call_id: str, output: str) -> None:
        await self.stream.write(pb.ConverseRequest(tool_output=pb.ToolOutput(call_id=call_id, output=output)))

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
            self.hear(from_message(response))
        self.over((await self.stream.code()).name)


def from_message(response: pb.ConverseResponse) -> Told | None:
    generation = response.generation
    match response.WhichOneof("payload"):
        case "started":
            return Told("started", text=response.started.session_id)
        case "speech_started" | "speech_stopped" | "reply_started" | "flush" | "held" | "resumed" as kind:
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
        case "tool_request":
            asked = response.tool_request
            return Told("tool_request", generation, asked.arguments_json, name=asked.call_id)
        case "reply_done":
            return Told("reply_done", generation, response.reply_done.text)
        case "error":
            return Told("error", text=response.error.code)
        case "transfer":
            return Told("transfer", text=response.transfer.target)
        case "ended":
            return Told("ended", text=response.ended.reason)
    return None


@asynccontextmanager
async def over_grpc(local: LocalRuntime, session_id: str = "", url: str = "", configures: bool = True) -> AsyncIterator[Caller]:
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
            caller.hear(from_message(first))
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
