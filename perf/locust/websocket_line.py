"""A session over WebSocket in the OpenAI Realtime protocol, through the balancer's relay."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from base64 import b64encode
from typing import Final

from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from perf.locust.line import Heard, LineBroken, LineRefused, OnHeard, Opened, start_listening
from perf.locust.sound import silent_frame, voiced_frame

__all__ = ["WebSocketLine"]

_RATE_HZ: Final = 24_000
_OPEN_S: Final = 15.0
_CLOSE_S: Final = 5.0
_AUDIO: Final = '"type":"response.output_audio.delta"'
"""Looked for in the text: parsing all audio as JSON would cost the caller more than the runtime's work."""


def _append(pcm: bytes) -> str:
    return json.dumps({"type": "input_audio_buffer.append", "audio": b64encode(pcm).decode()})


class WebSocketLine:
    """See `Line`.

    Args:
        url: ws://HOST:PORT/v1/realtime of a balancer.
        frame_ms: of each message of audio.
    """

    def __init__(self, url: str, frame_ms: int) -> None:
        self._url = url
        self._voiced = _append(voiced_frame(_RATE_HZ, frame_ms))
        self._silent = _append(silent_frame(_RATE_HZ, frame_ms))
        self._connection: ClientConnection | None = None
        self._listener: threading.Thread | None = None
        self._updated = threading.Event()
        self._is_gone = threading.Event()
        self._why = ""

    def open(self, heard: OnHeard) -> Opened:
        try:
            connection = connect(
                self._url, compression=None, proxy=None, open_timeout=_OPEN_S, close_timeout=_CLOSE_S, ping_interval=None
            )
        except InvalidStatus as refused:
            raise LineRefused(_code(refused)) from refused
        except (OSError, TimeoutError, WebSocketException) as error:
            raise LineBroken(type(error).__name__) from error
        self._connection = connection
        headers = connection.response.headers if connection.response else {}
        opened = Opened(headers.get("x-switchboard-session", ""), headers.get("x-switchboard-runtime", ""))
        self._listener = start_listening(lambda: self._listen(connection, heard), "websocket-line")
        self._send('{"type":"session.update","session":{"type":"realtime"}}')
        if not self._updated.wait(_OPEN_S) or self._is_gone.is_set():
            raise LineBroken(self._why or "no session.updated came")
        return opened

    def speak(self, *, is_voiced: bool) -> None:
        self._send(self._voiced if is_voiced else self._silent)

    def cancel_reply(self) -> None:
        self._send('{"type":"response.cancel"}')

    def goodbye(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def cut(self) -> None:
        """A reset, as a dead network gives: no close frame, no FIN."""
        if self._connection is not None:
            raw = self._connection.socket
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with contextlib.suppress(OSError):
                raw.shutdown(socket.SHUT_RD)  # wakes the listener, which else would hold the socket open
            raw.close()

    def _send(self, message: str) -> None:
        assert self._connection is not None, "opened first"
        try:
            self._connection.send(message)
        except (ConnectionClosed, OSError) as error:
            raise LineBroken(self._why or str(error)) from error

    def _listen(self, connection: ClientConnection, heard: OnHeard) -> None:
        try:
            for message in connection:
                assert isinstance(message, str), "this protocol is text"
                if _AUDIO in message[:400]:
                    heard(Heard.AUDIO, _seconds_of(message))
                elif '"type":"session.updated"' in message[:200]:
                    self._updated.set()
                elif '"type":"response.created"' in message[:200]:
                    heard(Heard.REPLY, 0.0)
                elif '"type":"response.done"' in message[:200]:
                    heard(Heard.REPLY_OVER, 0.0)
            self._why = f"closed {connection.close_code} {connection.close_reason or ''}".strip()
        except (ConnectionClosed, OSError) as error:
            self._why = f"{type(error).__name__}: {error}"
        finally:
            self._is_gone.set()
            self._updated.set()
            heard(Heard.GONE, 0.0)


def _seconds_of(message: str) -> float:
    """Of the audio in a `response.output_audio.delta`, from the length of its base64."""
    start = message.rfind('"delta":"') + len('"delta":"')
    encoded = message.find('"', start) - start
    return encoded * 3 / 4 / 2 / _RATE_HZ


def _code(refused: InvalidStatus) -> str:
    try:
        return str(json.loads(refused.response.body or b"{}")["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return f"http_{refused.response.status_code}"
