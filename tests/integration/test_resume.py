"""Clients of our own lose their connection in the middle of a call and come back: the socket is really cut. (requirement C4)"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from types import MappingProxyType
from typing import Any, Protocol

import anyio
import grpc
import pytest
from grpc import aio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from balancer.placement.reservation import Door
from balancer.routing.request import PlacementRequest
from protos.switchboard.v1 import voice_pb2 as pb
from protos.switchboard.v1 import voice_pb2_grpc
from runtime.dialogue.agent import Turn
from runtime.primitives.reasons import EndReason
from tests.conformance.callers import speech
from tests.support.cable import Cable
from tests.support.call_parts import ScriptedAgent
from tests.support.local_runtime import LocalRuntime, enrolled_runtime, local_runtime, until

pytestmark = pytest.mark.anyio

PCM16_24K = pb.AudioFormat(encoding=pb.AUDIO_ENCODING_PCM16, sample_rate_hz=24_000)
_PIECE = 4_800
"""Bytes of 100 ms."""


class Line(Protocol):
    async def say(self, request: pb.ConverseRequest) -> None: ...

    async def hear(self) -> pb.ConverseResponse | None:
        """None: it is over."""
        ...

    async def ending(self) -> str:
        """How it was closed: a WebSocket code or a gRPC status."""
        ...


class Refused(Exception):
    """With the code."""


class BinaryLine:
    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def say(self, request: pb.ConverseRequest) -> None:
        with contextlib.suppress(ConnectionClosed):
            await self._connection.send(request.SerializeToString())

    async def hear(self) -> pb.ConverseResponse | None:
        try:
            message = await self._connection.recv(decode=False)
        except ConnectionClosed:
            return None
        return pb.ConverseResponse.FromString(message)

    async def ending(self) -> str:
        await self._connection.wait_closed()
        return str(self._connection.close_code)


class GrpcLine:
    def __init__(self, call: Any) -> None:
        self._call = call

    async def say(self, request: pb.ConverseRequest) -> None:
        with contextlib.suppress(aio.AioRpcError, asyncio.InvalidStateError):
            await self._call.write(request)

    async def hear(self) -> pb.ConverseResponse | None:
        try:
            heard = await self._call.read()
        except aio.AioRpcError:
            return None
        return heard if isinstance(heard, pb.ConverseResponse) else None

    async def ending(self) -> str:
        code: grpc.StatusCode = await self._call.code()
        return code.name


@asynccontextmanager
async def binary(local: LocalRuntime, cable: Cable | None, headers: dict[str, str]) -> AsyncIterator[Line]:
    address = local.runtime.http_address if cable is None else cable.address
    try:
        connection = await connect(f"ws://{address}/v1/converse", additional_headers=headers, compression=None, proxy=None)
    except InvalidStatus as error:
        raise Refused(json.loads(error.response.body)["error"]["code"]) from None
    try:
        yield BinaryLine(connection)
    finally:
        connection.transport.abort()


@asynccontextmanager
async def over_grpc(local: LocalRuntime, cable: Cable | None, headers: dict[str, str]) -> AsyncIterator[Line]:
    address = local.runtime.grpc_address if cable is None else cable.address
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
    async with aio.insecure_channel(address, options=options) as channel:
        call = voice_pb2_grpc.VoiceAgentStub(channel).Converse(metadata=tuple(headers.items()))
        yield GrpcLine(call)
        call.cancel()


Open = Callable[..., contextlib.AbstractAsyncContextManager[Line]]
WIRES = pytest.mark.parametrize("wire", [binary, over_grpc], ids=["binary", "grpc"])


def _target(local: LocalRuntime, wire: Open) -> str:
    return local.runtime.http_address if wire is binary else local.runtime.grpc_address


class Client:
    """What a client of ours does: numbers what it says, keeps it until it is acknowledged, and knows what it has."""

    def __init__(self, local: LocalRuntime, wire: Open, headers: dict[str, str] | None = None) -> None:
        self.local = local
        self.wire = wire
        self.headers = headers or {}
        self.said: list[pb.ConverseRequest] = []
        self.heard: list[pb.ConverseResponse] = []
        self.token = ""
        self.within_ms = 0
        self.line: Line
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Client:
        self._lines = await self._stack.enter_async_context(AsyncExitStack())
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    @property
    def received(self) -> int:
        return max((each.ordinal for each in self.heard), default=0)

    async def call(self, cable: Cable | None = None) -> None:
        self.line = await self._lines.enter_async_context(self.wire(self.local, cable, self.headers))
        await self.say(config=pb.SessionConfig(input_format=PCM16_24K, resumable=True))
        started = (await self.until("started"))[-1].started
        self.token, self.within_ms = started.resume_token, started.resume_within_ms

    async def come_back(self, token: str = "", headers: Mapping[str, str] = MappingProxyType({})) -> int:
        """Answers how many of our messages had come."""
        shown = {**self.headers, "x-switchboard-resume": token or self.token, **headers}
        line = await self._lines.enter_async_context(self.wire(self.local, None, shown))
        await line.say(pb.ConverseRequest(resume=pb.Resume(), received=self.received))
        with anyio.fail_after(20):
            first = await line.hear()
        if first is None:
            await self._raise_refusal(line)
        assert first is not None
        assert first.WhichOneof("payload") == "session_resumed"
        assert first.ordinal == 0
        self.line, self.token = line, first.session_resumed.resume_token
        return first.received

    async def _raise_refusal(self, line: Line) -> None:
        assert isinstance(line, GrpcLine)
        trailers = {str(key): str(value) for key, value in await line._call.trailing_metadata() or ()}
        raise Refused(trailers["refusal-reason"])

    async def say(self, **payload: Any) -> None:
        request = pb.ConverseRequest(ordinal=len(self.said) + 1, received=self.received, **payload)
        self.said.append(request)
        await self.line.say(request)

    async def say_again(self, above: int) -> None:
        for request in self.said[above:]:
            await self.line.say(request)

    async def speak(self, pcm: bytes) -> None:
        for start in range(0, len(pcm), _PIECE):
            await self.say(audio=pb.AudioChunk(data=pcm[start : start + _PIECE], format=PCM16_24K))

    async def until(self, kind: str) -> list[pb.ConverseResponse]:
        told = []
        with anyio.fail_after(20):
            while True:
                heard = await self.line.hear()
                assert heard is not None, f"over before {kind}"
                if heard.ordinal:
                    assert heard.ordinal == self.received + 1, "each once, in order"
                    self.heard.append(heard)
                    told.append(heard)
                if heard.WhichOneof("payload") == kind:
                    return told


def _turns(client: Client) -> list[tuple[str, int | str]]:
    """What of a spoken turn depends on every sample: when speech began and ended by the samples that came, and its words."""
    found: list[tuple[str, int | str]] = []
    for each in client.heard:
        match each.WhichOneof("payload"):
            case "speech_started":
                found.append(("from", each.speech_started.media_time_ms))
            case "speech_stopped":
                found.append(("to", each.speech_stopped.media_time_ms))
            case "transcript" if each.transcript.is_final:
                found.append(("words", each.transcript.text))
    return found


@WIRES
async def test_a_caller_is_cut_off_in_mid_sentence_and_says_the_rest(wire: Open) -> None:
    pcm = speech(1.5, 1.0)
    async with local_runtime() as local:
        async with Client(local, wire) as undisturbed:
            await undisturbed.call()
            await undisturbed.speak(pcm)
            await undisturbed.until("reply_done")
            expected = _turns(undisturbed)
            assert [kind for kind, _ in expected] == ["from", "to", "words"]
            await undisturbed.say(end=pb.EndSession())
            await local.until_ended(EndReason.CLOSED_BY_CALLER)
        async with Cable(_target(local, wire)).plugged() as cable, Client(local, wire) as client:
            await client.call(cable)
            assert client.within_ms == 30_000
            await client.speak(pcm[:24_000])
            await client.until("speech_started")
            cable.cut()
            await until(lambda: local.parts.desk.away.total() == 1)
            assert local.ledger.active == 1
            await client.speak(pcm[24_000:48_000])  # a microphone does not stop
            had = await client.come_back()
            assert 1 < had <= 6
            await client.say_again(max(0, had - 2))  # some of it twice: it is taken once
            await client.speak(pcm[48_000:])
            await client.until("reply_done")
            assert _turns(client) == expected
            await client.say(end=pb.EndSession())
            await local.until_ended(EndReason.CLOSED_BY_CALLER, 2)
        assert local.ledger.totals.started == 2
        body, _ = local.parts.exposition()
        assert b"switchboard_runtime_callers_lost_total 1.0" in body
        assert b"switchboard_runtime_callers_back_total 1.0" in body


def _story() -> ScriptedAgent:
    async def answer(_: Turn) -> AsyncIterator[str]:
        yield "Once there was a switchboard with a hundred lines. "
        yield "At each line somebody waited for an answer. "

    return ScriptedAgent(answer)


@WIRES
async def test_a_caller_is_cut_off_while_the_agent_speaks_and_hears_the_rest(wire: Open) -> None:
    async with local_runtime(_story(), lead_ms=200) as local:
        async with Cable(_target(local, wire)).plugged() as cable, Client(local, wire) as client:
            await client.call(cable)
            await client.say(text="a story")
            for _ in range(25):
                await client.until("reply_audio")
            cable.cut()
            await until(lambda: local.parts.desk.away.total() == 1)
            await client.come_back()
            await client.until("reply_done")
            chunks = [each.reply_audio.chunk for each in client.heard if each.WhichOneof("payload") == "reply_audio"]
            assert [chunk.media_time_ms for chunk in chunks] == list(range(0, 20 * len(chunks), 20))
            assert len(chunks) > 50
            assert client.heard[-1].reply_done.status == pb.REPLY_STATUS_COMPLETED
            assert client.heard[-1].reply_done.text.rstrip().endswith("waited for an answer.")
            await client.say(text="again")
            await client.until("reply_done")
        await until(lambda: local.parts.desk.away.total() == 1)


@WIRES
async def test_what_had_come_is_not_applied_again(wire: Open) -> None:
    async with local_runtime() as local:
        async with Cable(_target(local, wire)).plugged() as cable, Client(local, wire) as client:
            await client.call(cable)
            await client.say(text="book a table")
            await client.until("reply_done")
            cable.cut()
            assert await client.come_back() == 2
            await client.say_again(0)
            await client.say(text="one more")
            told = await client.until("reply_done")
            assert [each.reply_done.text for each in told if each.HasField("reply_done")] == ["You said: one more."]
            assert sum(each.WhichOneof("payload") == "tool_result" for each in client.heard) == 1
            await client.say(end=pb.EndSession())
        await local.until_ended(EndReason.CLOSED_BY_CALLER)


@WIRES
async def test_a_connection_that_still_seems_to_be_there_is_left_for_the_new_one(wire: Open) -> None:
    """A phone that changed networks is back before anybody has noticed that it was gone."""
    async with local_runtime() as local, Client(local, wire) as client:
        await client.call()
        before = client.line
        assert await client.come_back() == 1
        await client.say(text="hello")
        await client.until("reply_done")
        with anyio.fail_after(20):
            assert await before.hear() is None
            assert await before.ending() in ("1006", "ABORTED")
        assert local.ledger.totals.started == local.ledger.active == 1
        await client.say(end=pb.EndSession())
        await local.until_ended(EndReason.CLOSED_BY_CALLER)


@WIRES
async def test_a_token_is_good_until_the_next_one_is_used(wire: Open) -> None:
    async with local_runtime() as local, Client(local, wire) as client:
        await client.call()
        first = client.token
        await client.come_back()  # and lost again before anything was said
        await client.come_back(token=first)
        await client.say(text="hello")
        await client.until("reply_done")
        with pytest.raises(Refused, match="used_resume_token"):
            await client.come_back(token=first)
        await client.say(text="still here")
        await client.until("reply_done")


@WIRES
async def test_the_newest_token_that_a_caller_knows_is_good(wire: Open) -> None:
    """The answer to it, with the next one, may never have come."""
    async with local_runtime() as local, Client(local, wire) as client:
        await client.call()
        first = client.token
        await client.come_back()
        second = client.token
        await client.come_back(token=second)
        await client.come_back(token=second)
        with pytest.raises(Refused, match="used_resume_token"):
            await client.come_back(token=first)
        await client.say(text="hello")
        await client.until("reply_done")


@WIRES
async def test_whose_token_it_is_not(wire: Open) -> None:
    async with enrolled_runtime(allow_direct="nowhere") as enrolled:
        local = enrolled.local
        placement = await enrolled.service.balancer.placer.place(PlacementRequest("mine", tenant="acme"), Door.ASSIGN)
        async with Client(local, wire, {"x-switchboard-ticket": placement.ticket}) as client:
            await client.call()
            token = client.token
            flipped = token[:-1] + ("A" if token[-1] != "A" else "B")
            for shown, headers, code in (
                ("invented", {}, "forged_resume_token"),
                (flipped, {}, "forged_resume_token"),
                (token[:-1], {}, "forged_resume_token"),
                (placement.ticket, {}, "forged_resume_token"),
                (token, {"x-switchboard-tenant": "umbrella"}, "wrong_tenant"),
                (token, {"x-switchboard-session": "theirs"}, "wrong_session"),
            ):
                with pytest.raises(Refused, match=code):
                    await client.come_back(shown, headers)
            await client.say(text="hello")
            await client.until("reply_done")  # its owner was not disturbed
            await client.come_back(headers={"x-switchboard-tenant": "acme", "x-switchboard-session": "mine"})
            await client.say(end=pb.EndSession())
            await local.until_ended(EndReason.CLOSED_BY_CALLER)
            with pytest.raises(Refused, match="session_over"):
                await client.come_back()


@WIRES
async def test_who_comes_too_late_finds_the_session_over(wire: Open) -> None:
    async with local_runtime(resume_grace_s=0.2) as local:
        async with Cable(_target(local, wire)).plugged() as cable, Client(local, wire) as client:
            await client.call(cable)
            assert client.within_ms == 200
            cable.cut()
            await local.until_ended(EndReason.CONNECTION_LOST)
            with pytest.raises(Refused, match="session_over"):
                await client.come_back()
        await local.until_empty()


@WIRES
async def test_who_says_what_cannot_be_ends_the_connection_and_not_the_session(wire: Open) -> None:
    async with local_runtime() as local, Client(local, wire) as client:
        await client.call()
        shown = {"x-switchboard-resume": client.token}
        for first in (
            pb.ConverseRequest(resume=pb.Resume(), received=99),
            pb.ConverseRequest(text="hello"),
            pb.ConverseRequest(config=pb.SessionConfig(input_format=PCM16_24K)),
        ):
            async with wire(local, None, shown) as line:
                await line.say(first)
                with anyio.fail_after(20):
                    assert await line.hear() is None
                    assert await line.ending() in ("1002", "INVALID_ARGUMENT")
        await client.say(text="hello")
        await client.until("reply_done")


@WIRES
async def test_without_grace_nobody_is_offered_to_come_back(wire: Open) -> None:
    async with (
        local_runtime(resume_grace_s=0.0) as local,
        Cable(_target(local, wire)).plugged() as cable,
        Client(local, wire) as client,
    ):
        await client.call(cable)
        assert (client.token, client.within_ms) == ("", 0)
        cable.cut()
        await local.until_ended(EndReason.CONNECTION_LOST)


async def test_of_one_tenant_only_so_many_may_wait() -> None:
    async with local_runtime(resume_most_away=2) as local, AsyncExitStack() as stack:
        for tenant in ("acme", "acme", "acme", "umbrella"):
            cable = await stack.enter_async_context(Cable(local.runtime.http_address).plugged())
            client = await stack.enter_async_context(Client(local, binary, {"x-switchboard-tenant": tenant}))
            await client.call(cable)
            before = local.parts.desk.away.total() + sum(local.ended.values())
            cable.cut()
            await until(lambda before=before: local.parts.desk.away.total() + sum(local.ended.values()) == before + 1)  # type: ignore[misc]
        assert dict(local.parts.desk.away) == {"acme": 2, "umbrella": 1}
        assert dict(local.ended) == {EndReason.CONNECTION_LOST: 1}


@WIRES
async def test_a_client_that_never_acknowledges_is_bounded(wire: Open) -> None:
    limits = {"resume_most_bytes": 65_536, "lead_ms": 60_000}
    async with (
        local_runtime(_story(), slow_caller_s=0.3, resume_grace_s=0.2, **limits) as local,
        Client(local, wire) as client,
    ):
        await client.call()
        await client.line.say(pb.ConverseRequest(ordinal=2, text="a story"))
        await local.until_ended(EndReason.CONNECTION_LOST)
        body, _ = local.parts.exposition()
        assert b"switchboard_runtime_callers_lost_total 1.0" in body
