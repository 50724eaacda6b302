"""Callers that come in by every door and end in every way, each as cheap as can be."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from typing import Final, Self

import anyio
from anyio.abc import SocketStream
from grpc import aio

from perf.faults.grpc_caller import OWN_CONNECTION, GrpcCaller
from perf.faults.journal import Journal, Visit
from perf.faults.plan import Door, Ending, Outcome, Wire, planned_outcome
from perf.faults.websocket_caller import Place, WebSocketCaller
from protos.switchboard.v1 import voice_pb2_grpc

__all__ = ["Callers", "Doors"]

_TORN: Final = (
    OSError,
    anyio.BrokenResourceError,
    anyio.EndOfStream,
    anyio.ClosedResourceError,
    aio.AioRpcError,
    asyncio.InvalidStateError,  # grpc's word for writing to a call that is over
)
_PATIENCE_S: Final = 40.0
"""Above every limit of the workers in the lab."""


@dataclass(frozen=True, slots=True)
class Doors:
    """Addresses, host:port. `names`, `http` and `grpc` are by worker."""

    names: list[str]
    http: list[str]
    grpc: list[str]
    public: str


class Callers:
    """Makes the planned connections and writes down how each went. Use as a context manager.

    One gRPC channel a worker serves all calls but those that lose their network.
    """

    def __init__(self, doors: Doors, journal: Journal, stay_s: float) -> None:
        self._doors = doors
        self._journal = journal
        self._stack = contextlib.AsyncExitStack()
        self._grpc = GrpcCaller(stay_s)
        self._websocket = WebSocketCaller(stay_s)

    async def __aenter__(self) -> Self:
        for address in self._doors.grpc:
            channel = await self._stack.enter_async_context(aio.insecure_channel(address, options=OWN_CONNECTION))
            self._grpc.stubs[address] = voice_pb2_grpc.VoiceAgentStub(channel)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._grpc.stubs.clear()
        await self._stack.aclose()

    async def make(self, visit: Visit) -> Outcome:
        """One connection from its beginning to its end; opened in the journal before. A worker that dies under it is no error."""
        outcome = Outcome.UNANSWERED
        try:
            with anyio.move_on_after(_PATIENCE_S) as patience:
                outcome = await self._come(visit)
            if patience.cancelled_caught:
                outcome = Outcome.OVERDUE
        except* _TORN:
            # An orderly end raises nothing, so this one came before its time.
            outcome = Outcome.CUT if visit.was_acknowledged else Outcome.UNANSWERED
        finally:
            self._journal.close(visit, outcome)
        return outcome

    async def _come(self, visit: Visit) -> Outcome:
        connection = visit.connection
        place: Place | None = None
        match connection.door:
            case Door.DIRECT:
                place = Place(self._doors.http[connection.worker], self._doors.grpc[connection.worker])
                visit.place(self._doors.names[connection.worker])
            case Door.RELAYED:
                place = Place(self._doors.public, "")
            case Door.ASSIGNED:
                place = await self._assigned(visit)
        if place is None:
            return Outcome.REFUSED
        if connection.ending is Ending.ABANDON:
            return planned_outcome(connection.ending)
        if connection.wire is Wire.WEBSOCKET:
            return await self._websocket.call(visit, place)
        return await self._grpc.call(visit, place)

    async def _assigned(self, visit: Visit) -> Place | None:
        """Asks the balancer; None where it has no place."""
        body = json.dumps({"session_id": visit.connection.session_id}).encode()
        head = (
            f"POST /v1/assignments HTTP/1.1\r\nHost: {self._doors.public}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        host, _, port = self._doors.public.rpartition(":")
        async with await anyio.connect_tcp(host, int(port)) as stream:
            await stream.send(head.encode() + body)
            status, _, answer = (await _all(stream)).partition(b"\r\n\r\n")
        if b" 201 " not in status.split(b"\r\n", 1)[0]:
            return None
        given = json.loads(answer)
        visit.place(given["runtime_id"])
        address = str(given["websocket_url"]).removeprefix("ws://").partition("/")[0]
        return Place(address, str(given["grpc_address"]), str(given["ticket"]))


async def _all(stream: SocketStream) -> bytes:
    heard = b""
    with contextlib.suppress(anyio.EndOfStream):
        while True:
            heard += await stream.receive()
    return heard
