"""The OpenAI Realtime wire, and its beta dialect. `flush` is a response that ends `cancelled`."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from tests.conformance.callers import TELLS_ALL, Caller, Listener, Told
from tests.conformance.websocket_wire import over_websocket
from tests.support.local_runtime import LocalRuntime

__all__ = ["BETA_TELLS", "REALTIME_TELLS", "realtime", "realtime_beta"]

REALTIME_TELLS = TELLS_ALL - {"held", "resumed", "transfer"}
BETA_TELLS = REALTIME_TELLS - {"tool_call", "tool_result"}
_GA_NAMES = {
    "response.audio.delta": "response.output_audio.delta",
    "response.audio_transcript.delta": "response.output_audio_transcript.delta",
}


class RealtimeCaller(Listener):
    tells = REALTIME_TELLS

    def __init__(self, connection: ClientConnection) -> None:
        super().__init__()
        self._connection = connection
        self._started = False

    async def _send(self, **event: Any) -> None:
        await self._connection.send(json.dumps(event))

    def _told(self, event: dict[str, Any]) -> list[Told]:
        return _from_realtime(event)

    async def configure(self) -> None:
        tool = {"type": "function", "name": "client_look", "parameters": {"type": "object"}}
        await self._send(type="session.update", session={"type": "realtime", "tools": [tool]})

    async def say(self, pcm: bytes) -> None:
        for start in range(0, len(pcm), 4_800):
            audio = b64encode(pcm[start : start + 4_800]).decode()
            await self._send(type="input_audio_buffer.append", audio=audio)

    async def type(self, text: str) -> None:
        part = {"type": "input_text", "text": text}
        await self._send(type="conversation.item.create", item={"type": "message", "role": "user", "content": [part]})
        await self._send(type="response.create")

    async def answer_tool(self, call_id: str, output: str) -> None:
        item = {"type": "function_call_output", "call_id": call_id, "output": output}
        await self._send(type="conversation.item.create", item=item)
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
                for told in self._told(event):
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
        case "response.created" if event["response"]["id"].count("_") > 1:
            return []  # a reply that goes on after a tool of the client
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
        case "response.output_item.done" if event["item"]["type"] == "function_call":
            return [Told("tool_request", generation, event["item"]["arguments"], name=event["item"]["call_id"])]
        case "response.done" if any(item["type"] == "function_call" for item in event["response"]["output"]):
            return []
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


class BetaCaller(RealtimeCaller):
    tells = BETA_TELLS

    def _told(self, event: dict[str, Any]) -> list[Told]:
        assert "output_audio" not in event["type"], "that is the other dialect's name"
        return _from_realtime({**event, "type": _GA_NAMES.get(event["type"], event["type"])})

    async def configure(self) -> None:
        tool = {"type": "function", "name": "client_look", "parameters": {"type": "object"}}
        session = {
            "modalities": ["text", "audio"],
            "input_audio_format": "pcm16",
            "output_audio_format": "pcm16",
            "tools": [tool],
        }
        await self._send(type="session.update", session={**session, "turn_detection": {"type": "server_vad"}})


@asynccontextmanager
async def realtime(
    local: LocalRuntime, session_id: str = "", url: str = "", configures: bool = True, reads: bool = True, is_beta: bool = False
) -> AsyncIterator[Caller]:
    headers = {"OpenAI-Beta": "realtime=v1"} if is_beta else {}
    make = BetaCaller if is_beta else RealtimeCaller
    async with over_websocket(make, url or local.url, session_id, headers, configures=configures, reads=reads) as caller:
        yield caller


def realtime_beta(local: LocalRuntime, **options: Any) -> AbstractAsyncContextManager[Caller]:
    return realtime(local, is_beta=True, **options)
