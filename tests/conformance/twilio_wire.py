"""Twilio Media Streams, with a far end that plays at once and echoes each mark when it has played what came before it.

It tells audio, the end of a whole reply (its last mark) and flushes (`clear`), nothing else. It has no text:
what is typed is said.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from runtime.codec.audio_formats import from_wire, to_wire
from runtime.codec.twilio import TWILIO_FORMAT
from tests.conformance.callers import RATE_HZ, Caller, Listener, Told, speech
from tests.conformance.websocket_wire import over_websocket
from tests.support.local_runtime import LocalRuntime
from tests.support.twilio import start_message

__all__ = ["TWILIO_TELLS", "twilio"]

TWILIO_TELLS = frozenset({"started", "audio", "reply_done", "flush"})
_STEP = RATE_HZ // TWILIO_FORMAT.sample_rate_hz


class TwilioCaller(Listener):
    tells = TWILIO_TELLS

    def __init__(self, connection: ClientConnection, local: LocalRuntime) -> None:
        super().__init__()
        self._connection = connection
        self._local = local
        self._generation = 0
        response = connection.response
        assert response is not None
        self._session_id = response.headers["x-switchboard-session"]

    async def _send(self, **event: Any) -> None:
        await self._connection.send(json.dumps(event))

    async def configure(self) -> None:
        await self._send(event="connected", protocol="Call", version="1.0.0")
        await self._connection.send(start_message("MZ1", "CA1", {"table": "7"}))
        self.hear(Told("started", text=self._session_id))

    async def say(self, pcm: bytes) -> None:
        slow = np.frombuffer(pcm, "<i2")[::_STEP]
        for start in range(0, len(slow), 160):
            payload = b64encode(to_wire(slow[start : start + 160].tobytes(), TWILIO_FORMAT)).decode()
            await self._send(event="media", streamSid="MZ1", media={"track": "inbound", "payload": payload})

    async def type(self, text: str) -> None:
        self._local.hears.answer = text
        await self.say(speech())

    async def answer_tool(self, call_id: str, output: str) -> None:
        raise AssertionError("a telephone has no tools")

    async def send_nonsense(self) -> None:
        await self._send(event="make tea", streamSid="MZ1")

    async def say_goodbye(self) -> None:
        await self._send(event="stop", streamSid="MZ1", stop={"callSid": "CA1"})

    def vanish(self) -> None:
        self._connection.transport.abort()

    async def listen(self) -> None:
        try:
            async for message in self._connection:
                event = json.loads(message)
                assert event["streamSid"] == "MZ1"
                await self._hear_event(event)
        except ConnectionClosed:
            pass
        got = self._connection.protocol.close_rcvd
        self.over(f"{got.code} {got.reason}".strip() if got is not None else "lost")

    async def _hear_event(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "media":
                pcm = from_wire(b64decode(event["media"]["payload"]), TWILIO_FORMAT)
                fast = np.repeat(np.frombuffer(pcm, "<i2"), _STEP)
                self.hear(Told("audio", self._generation + 1, audio=fast.tobytes()))
            case "clear":
                self._generation += 1
                self.hear(Told("flush", self._generation))
                self.hear(Told("reply_done", self._generation))
            case "mark":
                name = event["mark"]["name"]
                await self._send(event="mark", streamSid="MZ1", mark={"name": name})
                generation, _, rest = name.partition(":")
                assert int(generation) == self._generation + 1
                if rest.endswith(":end"):
                    self._generation += 1
                    self.hear(Told("reply_done", self._generation))


@asynccontextmanager
async def twilio(
    local: LocalRuntime, session_id: str = "", url: str = "", configures: bool = True, reads: bool = True
) -> AsyncIterator[Caller]:
    target = url or local.url.replace("/v1/realtime", "/v1/twilio")

    def made(connection: ClientConnection) -> TwilioCaller:
        return TwilioCaller(connection, local)

    async with over_websocket(made, target, session_id, {}, configures=configures, reads=reads) as caller:
        yield caller
