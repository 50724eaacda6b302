"""A call to an agent over WebSocket, in the OpenAI Realtime protocol: our own small client.

async with connect("ws://127.0.0.1:8080/v1/realtime") as call:
    async with anyio.create_task_group() as group:
        group.start_soon(call.speak, samples)        # 24 kHz, at real-time pace
        async for event in call.events():
            print(event["type"])
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlencode

import anyio
import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as websocket_connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from clients.refusals import CallFailed, CallRefused, refused

__all__ = ["RATE_HZ", "Call", "CallFailed", "CallRefused", "connect"]

RATE_HZ: Final = 24_000
"""The protocol's only PCM rate, both ways."""
_FRAME_SAMPLES: Final = RATE_HZ // 50
_CONNECT_S: Final = 15.0
_LONGEST_MESSAGE_BYTES: Final = 4 * 1024 * 1024


class Call:
    """A live call. One task speaks, one reads events.

    Attributes:
        session_id, runtime_id: as the server names them; empty where it does not.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        headers = connection.response.headers if connection.response else {}
        self.session_id: str = headers.get("x-switchboard-session", "")
        self.runtime_id: str = headers.get("x-switchboard-runtime", "")

    async def send(self, event: dict[str, Any]) -> None:
        """Sends one client event. Raises CallFailed."""
        try:
            await self._connection.send(json.dumps(event))
        except ConnectionClosed as error:
            raise CallFailed(f"the connection is closed ({error})") from error

    async def append(self, samples: NDArray[np.int16]) -> None:
        """Sends audio at `RATE_HZ`, at most a few seconds at once."""
        audio = b64encode(np.ascontiguousarray(samples, "<i2").tobytes()).decode()
        await self.send({"type": "input_audio_buffer.append", "audio": audio})

    async def speak(self, samples: NDArray[np.int16]) -> None:
        """Sends audio at `RATE_HZ` in 20 ms frames at real-time pace; late frames are sent at once."""
        started = anyio.current_time()
        for start in range(0, len(samples), _FRAME_SAMPLES):
            await anyio.sleep_until(started + start / RATE_HZ)
            await self.append(samples[start : start + _FRAME_SAMPLES])

    async def stay_silent(self) -> None:
        """Sends silence at real-time pace until cancelled, as an open microphone does."""
        started = anyio.current_time()
        silence = np.zeros(_FRAME_SAMPLES, np.int16)
        sent = 0
        while True:
            await anyio.sleep_until(started + sent * 0.02)
            await self.append(silence)
            sent += 1

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Server events until the server closes. Raises CallFailed where the connection breaks."""
        try:
            async for message in self._connection:
                yield json.loads(message)
        except ConnectionClosed as error:
            raise CallFailed(f"the connection broke ({error})") from error


@asynccontextmanager
async def connect(url: str, agent: str = "", session_id: str = "") -> AsyncIterator[Call]:
    """Opens a call and says goodbye at the end.

    Args:
        url: ws://HOST:PORT/v1/realtime of a balancer or a runtime.
        agent: whom to talk to; empty: the server's default.

    Raises CallRefused or CallFailed.
    """
    query = {key: value for key, value in (("model", agent), ("session_id", session_id)) if value}
    target = f"{url}{'&' if '?' in url else '?'}{urlencode(query)}" if query else url
    try:
        connection = await websocket_connect(
            target, compression=None, open_timeout=_CONNECT_S, max_size=_LONGEST_MESSAGE_BYTES, proxy=None
        )
    except InvalidStatus as error:
        raise refused(error) from error
    except (OSError, TimeoutError, WebSocketException) as error:
        raise CallFailed(f"cannot open a call at {url}: {str(error) or type(error).__name__}") from error
    try:
        yield Call(connection)
    finally:
        with anyio.move_on_after(5.0, shield=True):
            await connection.close()
