"""One HTTP POST whose answer is read line by line as it comes, and given up at any moment by closing it."""

from __future__ import annotations

import ssl
from typing import Final
from urllib.parse import urlsplit

import anyio
import h11
from anyio.abc import ByteStream

from runtime.primitives.errors import Fault, VoiceError

__all__ = ["HttpLines", "LlmUnavailable"]

_LONGEST_LINE: Final = 256 * 1024
_LONGEST_ANSWER: Final = 4 * 1024 * 1024


class LlmUnavailable(VoiceError):
    """The model cannot be reached, refuses, or breaks its protocol. The text holds no word of the conversation."""

    code = "llm_unavailable"
    fault = Fault.ENVIRONMENT
    retryable = True

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"language model: {problem}")


class HttpLines:
    """`next_line` may be cancelled and called again: it loses nothing. The connection is made by the first call."""

    def __init__(self, url: str, headers: list[tuple[str, str]], body: bytes) -> None:
        self._parts = urlsplit(url)
        self._headers = headers
        self._body = body
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_LINE)
        self._stream: ByteStream | None = None
        self._buffer = b""
        self._received = 0
        self._has_ended = False

    async def next_line(self) -> str | None:
        """The next line of the body, without its end; None after the last. Raises LlmUnavailable."""
        try:
            if self._stream is None:
                await self._connect()
            while b"\n" not in self._buffer and not self._has_ended:
                await self._read_more()
        except (OSError, ssl.SSLError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
            raise LlmUnavailable(f"the connection failed ({type(error).__name__})") from error
        except h11.RemoteProtocolError as error:
            raise LlmUnavailable("it does not speak HTTP as expected") from error
        line, found, self._buffer = self._buffer.partition(b"\n")
        return line.decode("utf-8", errors="replace").rstrip("\r") if line or found else None

    async def aclose(self) -> None:
        """Closes the connection, which is how the server learns that nobody listens any more."""
        if self._stream is not None:
            await anyio.aclose_forcefully(self._stream)

    async def _connect(self) -> None:
        parts, host = self._parts, self._parts.hostname
        assert host is not None, "checked with the settings"
        is_tls = parts.scheme == "https"
        port = parts.port or (443 if is_tls else 80)
        context = ssl.create_default_context() if is_tls else None
        stream: ByteStream = (
            await anyio.connect_tcp(host, port, ssl_context=context, tls_standard_compatible=False)
            if context is not None
            else await anyio.connect_tcp(host, port)
        )
        try:
            fixed = [("Host", parts.netloc.rpartition("@")[2]), ("Content-Length", str(len(self._body))), ("Connection", "close")]
            request = h11.Request(method="POST", target=parts.path or "/", headers=[*fixed, *self._headers])
            head = self._http.send(request) or b""
            body = self._http.send(h11.Data(data=self._body)) or b""
            await stream.send(head + body + (self._http.send(h11.EndOfMessage()) or b""))
        except BaseException:
            self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_LINE)
            await anyio.aclose_forcefully(stream)
            raise
        self._stream = stream

    async def _read_more(self) -> None:
        assert self._stream is not None, "connected before"
        event = self._http.next_event()
        match event:
            case h11.NEED_DATA:
                try:
                    data = await self._stream.receive()
                except anyio.EndOfStream:
                    data = b""
                self._http.receive_data(data)
            case h11.Response():
                if event.status_code != 200:
                    raise LlmUnavailable(f"it answered with HTTP {event.status_code}")
            case h11.Data():
                self._buffer += event.data
                self._received += len(event.data)
                if len(self._buffer) > _LONGEST_LINE or self._received > _LONGEST_ANSWER:
                    raise LlmUnavailable(f"it answers without end; allowed: {_LONGEST_ANSWER} bytes")
            case h11.EndOfMessage() | h11.ConnectionClosed():
                self._has_ended = True
            case _:
                pass
