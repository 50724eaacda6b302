"""A spoken call over our own wire (protobuf messages in binary WebSocket frames, or over gRPC), for async programs.

docs/clients.md has an example; `clients/blocking_call.py` is the same for programs without an event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol
from urllib.parse import urlencode, urlsplit

import anyio
import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as websocket_connect
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from clients.assignments import ask_for_place, web_address
from clients.call_events import AgentAudio, CallEvent, Flushed, event_from
from clients.grpc_line import is_grpc, open_grpc_line
from clients.playback import Playback
from clients.refusals import CallFailed, CallRefused, refused
from clients.returning_line import ReturningLine
from protos.switchboard.v1 import voice_pb2 as pb

__all__ = ["CallOptions", "DeclaredTool", "VoiceCall", "Way", "open_call"]

_CONNECT_S: Final = 15.0
_DIRECT_CONNECT_S: Final = 3.0
"""To a runtime that was just assigned: well within the ticket's life, and not long where a firewall swallows the attempt."""
_FRAMES_PER_S: Final = 50
_MOST_WAITING_EVENTS: Final = 4096
"""Over a minute of a reply that nobody reads; then the connection is no longer read, and the server ends the call."""
_HEARD_EVERY_MS: Final = 200
_PING_S: Final = 5.0
"""A network that is gone without a word is noticed within twice that, and the call comes back."""
_RATES_HZ: Final = (8_000, 16_000, 24_000)


class Way(StrEnum):
    """How a call goes to its runtime when a balancer is asked."""

    ASSIGN = "assign"
    """Straight: nothing is in between, and nothing keeps the call when the runtime dies."""
    RELAY = "relay"
    """Through the balancer, which moves the call when its runtime leaves or dies."""


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """A tool that the caller's side runs for the agent. `parameters_json`: JSON schema of its arguments object."""

    name: str
    description: str = ""
    parameters_json: str = "{}"


@dataclass(frozen=True, slots=True)
class CallOptions:
    """Attributes:
    rate_hz: of the samples both ways: 8000, 16000 or 24000.
    metadata: facts about the caller that reach the agent.
    comes_back: a lost connection is brought back, and the call goes on, where the server offers it.
    detects_turns: False: `commit` ends a turn and `respond` asks for the reply.
    """

    rate_hz: int = 24_000
    instructions: str = ""
    metadata: Mapping[str, str] | None = None
    tools: Sequence[DeclaredTool] = ()
    detects_turns: bool = True
    comes_back: bool = True

    def __post_init__(self) -> None:
        if self.rate_hz not in _RATES_HZ:
            raise ValueError(f"rate_hz is {self.rate_hz}; allowed: {', '.join(map(str, _RATES_HZ))}")


class Line(Protocol):
    """A call's connection: `ReturningLine` or `GrpcLine`."""

    session_id: str
    runtime_id: str
    token: str
    can_return: bool

    async def send(self, request: pb.ConverseRequest) -> None: ...

    def messages(self) -> AsyncIterator[pb.ConverseResponse]: ...

    async def close(self) -> None: ...


class VoiceCall:
    """A live call. One task reads `events`, another may speak. Every method raises CallFailed once the connection is gone.

    Attributes:
        playback: the agent's voice as it should be played; it follows `events`. A sound card's callback takes from it.
        session_id: keep it to come back to the same runtime while that is there. `runtime_id`: who served it at first.
        resume_token: empty where the server offers none; the call uses it by itself.
    """

    def __init__(self, line: Line, options: CallOptions) -> None:
        self._line = line
        self._format = pb.AudioFormat(encoding=pb.AUDIO_ENCODING_PCM16, sample_rate_hz=options.rate_hz)
        self._options = options
        self._told_heard = (0, 0)
        self.rate_hz = options.rate_hz
        self.playback = Playback(options.rate_hz)

    @property
    def session_id(self) -> str:
        return self._line.session_id

    @property
    def runtime_id(self) -> str:
        return self._line.runtime_id

    @property
    def resume_token(self) -> str:
        return self._line.token

    async def configure(self) -> None:
        """The first message; `open_call` has sent it."""
        options = self._options
        config = pb.SessionConfig(
            input_format=self._format,
            instructions=options.instructions,
            metadata=dict(options.metadata or {}),
            tools=[
                pb.ClientTool(name=t.name, description=t.description, parameters_json=t.parameters_json) for t in options.tools
            ],
            turn_detection=pb.TurnDetection(off=not options.detects_turns),
            resumable=options.comes_back and self._line.can_return,
        )
        await self._line.send(pb.ConverseRequest(config=config))

    async def events(self) -> AsyncIterator[CallEvent]:
        """What the call tells, until the server ends it. Keeps `playback`, and reports what it has played."""
        async for message in self._line.messages():
            event = event_from(message)
            if event is None:
                continue
            heard = self.playback.heard
            self.playback.hear(event)
            if isinstance(event, (AgentAudio, Flushed)):
                await self._tell_heard(heard, isinstance(event, Flushed))
            yield event

    async def send_audio(self, samples: NDArray[np.int16]) -> None:
        """Sends mono samples at `rate_hz`, at most a second at once: what a microphone brings, as it comes."""
        data = np.ascontiguousarray(samples, "<i2").tobytes()
        if data:
            await self._line.send(pb.ConverseRequest(audio=pb.AudioChunk(data=data, format=self._format)))

    async def say(self, samples: NDArray[np.int16], silence_s: float = 2.0) -> None:
        """Says a recording at real-time pace, then stays silent for `silence_s`: shorter, and its end may not be recognised."""
        frame = self.rate_hz // _FRAMES_PER_S
        whole = np.concatenate((np.asarray(samples, np.int16), np.zeros(int(silence_s * self.rate_hz), np.int16)))
        started = anyio.current_time()
        for start in range(0, len(whole), frame):
            await anyio.sleep_until(started + start / self.rate_hz)
            await self.send_audio(whole[start : start + frame])

    async def type(self, text: str) -> None:
        """Says something by keyboard; the reply comes by itself."""
        await self._line.send(pb.ConverseRequest(text=text))

    async def interrupt(self) -> None:
        """Stops the running reply. Speaking does it too."""
        await self._line.send(pb.ConverseRequest(interrupt=pb.Interrupt()))

    async def commit(self) -> None:
        """What was sent is a turn; for calls that do not detect turns."""
        await self._line.send(pb.ConverseRequest(commit=pb.CommitInput()))

    async def respond(self) -> None:
        """Asks for a reply; for calls that do not detect turns."""
        await self._line.send(pb.ConverseRequest(respond=pb.Respond()))

    async def press(self, key: str) -> None:
        """A key of a telephone: one of 0-9 * # A-D."""
        await self._line.send(pb.ConverseRequest(dtmf=key))

    async def answer_tool(self, call_id: str, output: str, *, is_error: bool = False) -> None:
        """Answers a `ToolRequested`: a JSON value as text, or plain text."""
        answer = pb.ToolOutput(call_id=call_id, output=output, is_error=is_error)
        await self._line.send(pb.ConverseRequest(tool_output=answer))

    async def hang_up(self) -> None:
        """Says goodbye; the server ends the call."""
        await self._line.send(pb.ConverseRequest(end=pb.EndSession()))

    async def _tell_heard(self, heard: tuple[int, int], is_flush: bool) -> None:
        generation, played_ms = heard
        told_generation, told_ms = self._told_heard
        is_news = generation != told_generation or played_ms - told_ms >= _HEARD_EVERY_MS
        if generation and (is_news or is_flush) and heard != self._told_heard:
            self._told_heard = heard
            await self._line.send(pb.ConverseRequest(heard=pb.Heard(generation=generation, played_ms=played_ms)))


@asynccontextmanager
async def open_call(
    server: str,
    agent: str = "",
    session_id: str = "",
    options: CallOptions | None = None,
    way: Way = Way.ASSIGN,
) -> AsyncIterator[VoiceCall]:
    """Opens a call and says goodbye at the end.

    Args:
        server: http(s)://HOST:PORT or ws(s)://HOST:PORT of a balancer or a runtime; grpc(s)://HOST:PORT of a gRPC port of theirs,
            and the call is one of gRPC.
        agent: whom to talk to; empty: the server's default.
        session_id: of an earlier call, to come back to the same runtime; empty: the server makes one.
        way: with ASSIGN a balancer is asked for a place and the call goes straight to the runtime; where that cannot be reached
            from here, and always with RELAY, the balancer carries it.

    Raises CallRefused or CallFailed.
    """
    line = await _connect(server, agent, session_id, way)
    try:
        call = VoiceCall(line, options or CallOptions())
        await call.configure()
        yield call
    finally:
        with anyio.move_on_after(5.0, shield=True):
            await line.close()


async def _connect(server: str, agent: str, session_id: str, way: Way) -> Line:
    if is_grpc(server):
        return await open_grpc_line(server, agent, session_id, is_straight=way is Way.ASSIGN)
    relay = web_address(server, "ws")
    place = await ask_for_place(server, agent, session_id) if way is Way.ASSIGN else None
    if place is None:
        return _line(relay, await _upgrade(relay, agent, session_id, {}, _CONNECT_S))
    runtime = f"{urlsplit(relay).scheme}://{place.websocket_address}"
    try:
        ticket = {"x-switchboard-ticket": place.ticket}
        return _line(runtime, await _upgrade(runtime, agent, place.session_id, ticket, _DIRECT_CONNECT_S))
    except CallRefused:
        raise
    except CallFailed:  # a network of its own: the place that is held there is the relay's as well
        return _line(relay, await _upgrade(relay, agent, place.session_id, {}, _CONNECT_S))


def _line(server: str, connection: ClientConnection) -> ReturningLine:
    async def open_again(token: str) -> ClientConnection:
        return await _upgrade(server, "", "", {"x-switchboard-resume": token}, _DIRECT_CONNECT_S)

    return ReturningLine(connection, open_again)


async def _upgrade(server: str, agent: str, session_id: str, headers: Mapping[str, str], within_s: float) -> ClientConnection:
    query = urlencode({key: value for key, value in (("model", agent), ("session_id", session_id)) if value})
    try:
        return await websocket_connect(
            f"{server}/v1/converse{'?' if query else ''}{query}",
            subprotocols=[Subprotocol("switchboard.v1")],
            additional_headers=headers,
            compression=None,
            open_timeout=within_s,
            max_queue=_MOST_WAITING_EVENTS,
            ping_interval=_PING_S,
            ping_timeout=_PING_S,
            proxy=None,
        )
    except InvalidStatus as error:
        raise refused(error) from error
    except (OSError, TimeoutError, WebSocketException) as error:
        raise CallFailed(f"cannot open a call at {server}: {str(error) or type(error).__name__}") from error
