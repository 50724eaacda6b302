"""A call's connection to its runtime that comes back after it was lost: nothing is lost, and nothing is said twice.

What is said is numbered and kept until the server says that it has it. When the connection breaks, another one is opened with the
token that the server gave, and both sides say what the other has not had: docs/protocol.md, "Coming back".
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeAlias

import anyio
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK

from clients.refusals import CallFailed, CallRefused
from protos.switchboard.v1 import voice_pb2 as pb

__all__ = ["OpenAgain", "ReturningLine"]

OpenAgain: TypeAlias = Callable[[str], Awaitable[ClientConnection]]
"""Opens a connection to the same runtime with a resume token. Raises CallRefused or CallFailed."""
_MOST_KEPT_BYTES: Final = 4 * 1024 * 1024
"""Over a minute of 24 kHz audio, twice what a server waits for at its default."""
_ACKNOWLEDGE_EVERY: Final = 25
_ANSWER_S: Final = 5.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 2.0


class ReturningLine:
    """One task reads `messages`, others `send`. Whoever notices that the connection is gone brings it back; the others wait.

    Attributes:
        token: opens the session again; empty: the server offers none, and a lost connection ends the call.
        within_s: how long the session waits.
        session_id, runtime_id: as the server named them when the call began.
    """

    can_return = True

    def __init__(self, connection: ClientConnection, open_again: OpenAgain) -> None:
        self.connection = connection
        headers = connection.response.headers if connection.response else {}
        self.session_id: str = headers.get("x-switchboard-session", "")
        self.runtime_id: str = headers.get("x-switchboard-runtime", "")
        self.token = ""
        self.within_s = 0.0
        self._open_again = open_again
        self._said = 0
        self._kept: deque[tuple[int, bytes]] = deque()
        self._kept_bytes = 0
        self._received = 0
        self._acknowledged = 0
        self._returns = 0
        self._told_returns = 0
        self._is_started = False
        self._has_ended = False
        self._writing = anyio.Lock()
        self._returning = anyio.Lock()

    async def send(self, request: pb.ConverseRequest) -> None:
        """Raises CallFailed where the call is over, or cannot come back."""
        self._said += 1
        request.ordinal, request.received = self._said, self._received
        self._has_ended = self._has_ended or request.WhichOneof("payload") == "end"
        data = request.SerializeToString()
        if self.token or not self._is_started:
            self._kept.append((self._said, data))
            self._kept_bytes += len(data)
            if self._kept_bytes > _MOST_KEPT_BYTES:
                raise CallFailed(f"the server has not acknowledged {self._kept_bytes} bytes of what was said")
        connection = self.connection
        try:
            async with self._writing:
                if self.connection is connection:  # else it was said on the new one, with all that is kept
                    await connection.send(data)
                    self._acknowledged = request.received
        except ConnectionClosedOK:
            raise CallFailed("the call is over") from None
        except ConnectionClosed as error:
            await self._come_back(connection, error)

    async def messages(self) -> AsyncIterator[pb.ConverseResponse]:
        """What the server says, each once, until it ends the call. Raises CallFailed where the connection is lost for good."""
        while True:
            connection = self.connection
            try:
                async for message in connection:
                    if isinstance(message, bytes) and (response := self._taken(message)) is not None:
                        yield response
                        await self._acknowledge()
                return
            except ConnectionClosed as error:
                await self._come_back(connection, error)
            if self._told_returns != self._returns:
                self._told_returns = self._returns
                yield pb.ConverseResponse(session_resumed=pb.SessionResumed())

    async def close(self) -> None:
        await self.connection.close()

    def _taken(self, message: bytes) -> pb.ConverseResponse | None:
        response = pb.ConverseResponse.FromString(message)
        self._forget(response.received)
        if response.HasField("started"):
            self.token = response.started.resume_token
            self.within_s = response.started.resume_within_ms / 1000
            self._is_started = True
            if not self.token:
                self._forget(self._said)
        if not response.ordinal:
            return None if response.WhichOneof("payload") is None else response
        self._received = response.ordinal
        return response

    def _forget(self, received: int) -> None:
        while self._kept and self._kept[0][0] <= received:
            self._kept_bytes -= len(self._kept.popleft()[1])

    async def _acknowledge(self) -> None:
        """Who only listens says so now and then."""
        if self.token and self._received - self._acknowledged >= _ACKNOWLEDGE_EVERY and not self._writing.locked():
            self._acknowledged = self._received
            try:
                async with self._writing:
                    await self.connection.send(pb.ConverseRequest(received=self._received).SerializeToString())
            except ConnectionClosed:
                return  # whoever reads next finds out

    async def _come_back(self, lost: ClientConnection, error: ConnectionClosed) -> None:
        """Returns when another connection than `lost` is there. Raises CallFailed where none comes."""
        async with self._returning:
            if self.connection is not lost:
                return
            if error.rcvd is not None or not self.token or self._has_ended:  # the server closed, or does not wait
                raise CallFailed(f"the connection broke ({error})") from error
            lost.transport.abort()
            until_s, wait_s = anyio.current_time() + self.within_s, _FIRST_WAIT_S
            while True:
                try:
                    await self._return()
                    return
                except CallRefused as refused:
                    raise CallFailed(f"the connection broke ({error}), and the call cannot go on: {refused}") from refused
                except (CallFailed, ConnectionClosed, TimeoutError) as failed:
                    if anyio.current_time() + wait_s > until_s:
                        text = f"the connection broke ({error}), and did not come back within {self.within_s:g} s: {failed}"
                        raise CallFailed(text) from failed
                await anyio.sleep(wait_s)
                wait_s = min(_LONGEST_WAIT_S, 2 * wait_s)

    async def _return(self) -> None:
        connection = await self._open_again(self.token)
        async with self._writing:
            try:
                with anyio.fail_after(_ANSWER_S):
                    resume = pb.ConverseRequest(resume=pb.Resume(), received=self._received)
                    await connection.send(resume.SerializeToString())
                    message = await connection.recv()
                first = pb.ConverseResponse.FromString(message) if isinstance(message, bytes) else pb.ConverseResponse()
                if not first.HasField("session_resumed"):
                    raise CallFailed("the server answered a resume with something else")
                self._forget(first.received)
                for _, data in list(self._kept):
                    await connection.send(data)
            except BaseException:
                connection.transport.abort()
                raise
            self.token = first.session_resumed.resume_token
            self.within_s = first.session_resumed.resume_within_ms / 1000
            self.connection = connection
            self._returns += 1
