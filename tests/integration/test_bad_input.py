"""Every kind of bad input that the product promises to survive: each has a clear answer, and nothing leaks or is lost."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import grpc
import pytest
from anyio.abc import SocketStream
from grpc import aio

from perf.faults.silent_hop import silent_hop
from protos.switchboard.v1 import load_pb2, placement_pb2, placement_pb2_grpc, registry_pb2, registry_pb2_grpc, voice_pb2_grpc
from protos.switchboard.v1 import voice_pb2 as pb
from runtime.primitives.reasons import EndReason
from runtime.transport.http_server import LONGEST_MESSAGE_BYTES
from tests.balancer.support.fake_runtime import FakeRuntime
from tests.balancer.support.running import running
from tests.conformance.grpc_wire import PCM16_24K
from tests.conformance.wires import WIRES
from tests.support.local_runtime import Enrolled, enrolled_runtime, open_files, until
from tests.support.raw_websocket import BINARY, TEXT, raw_caller, raw_connection

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Site:
    """Where bad input is sent: straight to a runtime, or through the balancer's relay to it."""

    enrolled: Enrolled
    is_relayed: bool

    @property
    def url(self) -> str:
        return self.enrolled.service.url if self.is_relayed else self.enrolled.local.url

    @property
    def http_address(self) -> str:
        return self.url.removeprefix("ws://").partition("/")[0]

    @property
    def grpc_address(self) -> str:
        return self.enrolled.service.grpc if self.is_relayed else self.enrolled.local.runtime.grpc_address

    @asynccontextmanager
    async def ending(self, *reasons: EndReason) -> AsyncIterator[None]:
        """Within the block exactly these sessions end."""
        local = self.enrolled.local
        before = dict(local.ended)
        yield
        await local.until_empty()
        after = {reason: count - before.get(reason, 0) for reason, count in local.ended.items()}
        assert sorted(reason for reason, count in after.items() for _ in range(count)) == sorted(reasons)


@asynccontextmanager
async def site(is_relayed: bool = False) -> AsyncIterator[Site]:
    waits = {
        "probe_after_ms": 300,
        "dead_after_ms": 300,
        "stalled_after_ms": 1_000,
        "head_timeout_ms": 400,
        "sweep_interval_ms": 20,
    }
    async with enrolled_runtime(waits, first_message_s=0.4, ping_interval_s=1.5, slow_caller_s=1.0, lead_ms=600_000) as enrolled:
        yield Site(enrolled, is_relayed)


def noise_bytes(seed: int, size: int = 4_000) -> bytes:
    """The same "random" bytes every time."""
    return hashlib.shake_256(seed.to_bytes(4, "big")).digest(size)


async def read_to_the_end(stream: SocketStream) -> bytes:
    received = b""
    with anyio.fail_after(20), contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            received += await stream.receive()
    return received


async def converse(address: str, *requests: pb.ConverseRequest) -> tuple[str, str]:
    """One call that sends these, and answers how it ended: status and text."""
    async with aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        stream = voice_pb2_grpc.VoiceAgentStub(channel).Converse()
        try:
            with anyio.fail_after(20):
                for request in requests:
                    await stream.write(request)
                while isinstance(await stream.read(), pb.ConverseResponse):
                    pass
        except (aio.AioRpcError, asyncio.InvalidStateError):
            pass
        code: grpc.StatusCode = await stream.code()
        return code.name, await stream.details() or ""


def config(session_id: str = "") -> pb.ConverseRequest:
    return pb.ConverseRequest(config=pb.SessionConfig(session_id=session_id, input_format=PCM16_24K))


# On the WebSocket wire


async def random_bytes_instead_of_http(at: Site) -> None:
    async with at.ending():
        for seed in range(4):
            async with raw_connection(at.http_address) as stream:
                await stream.send(noise_bytes(seed))
                answer = await read_to_the_end(stream)
                assert not answer or answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 408"))


async def random_bytes_instead_of_frames(at: Site) -> None:
    for seed in range(4):
        async with raw_caller(at.url) as caller:
            await caller.stream.send(noise_bytes(seed))
            assert await caller.until_over() in (1002, 1007, 1009)
        await at.enrolled.local.until_empty()


async def random_bytes_in_frames(at: Site) -> None:
    async with at.ending(EndReason.PROTOCOL_ERROR), raw_caller(at.url) as caller:
        await caller.say(type="session.update", session={})
        await caller.send(BINARY, noise_bytes(1))
        await caller.send(TEXT, b"no JSON")
        await caller.until_contains("invalid_event", "invalid_json")
        await caller.send(TEXT, noise_bytes(2))  # no UTF-8 either: this ends it
        assert await caller.until_over() == 1007


async def an_oversized_frame(at: Site) -> None:
    async with at.ending(EndReason.PROTOCOL_ERROR), raw_caller(at.url) as caller:
        await caller.say(type="session.update", session={})
        size = LONGEST_MESSAGE_BYTES + 1
        await caller.stream.send(b"\x81\xff" + size.to_bytes(8, "big") + bytes(4))
        assert await caller.until_over() == 1009


async def audio_in_a_wrong_format(at: Site) -> None:
    async with at.ending(EndReason.CLOSED_BY_CALLER), raw_caller(at.url) as caller:
        wrong = {"type": "realtime", "audio": {"input": {"format": {"type": "audio/pcm", "rate": 44_100}}}}
        await caller.say(type="session.update", session=wrong)
        await caller.say(type="input_audio_buffer.append", audio="AAAA")  # three bytes: no whole samples
        await caller.say(type="input_audio_buffer.append", audio="no base64!")
        await caller.say(type="input_audio_buffer.append", audio=7)
        await caller.say(type="input_audio_buffer.clear")
        await caller.until_contains("input_audio_buffer.cleared")
        await caller.send(8, (1000).to_bytes(2, "big"))
        assert await caller.until_over() == 1000
        assert caller.contains("session.audio.input.format.rate is 44100; allowed: 24000")
        assert caller.read.count(b'"invalid_value"') == 4


async def an_unknown_event(at: Site) -> None:
    async with at.ending(EndReason.CLOSED_BY_CALLER), raw_caller(at.url) as caller:
        await caller.say(type="session.update", session={})
        await caller.say(type="make.tea", event_id="mine")
        await caller.say(no="type")
        await caller.send(TEXT, b"[1,2]")
        await caller.until_contains("make.tea", '"event_id":"mine"', "no JSON object")
        await caller.send(8, b"")  # what a browser's close() without arguments sends
        assert await caller.until_over() in (1000, 1005)


async def a_half_open_caller(at: Site) -> None:  # bug R56
    """It is there and reads, and answers no ping."""
    async with at.ending(EndReason.CONNECTION_LOST), raw_caller(at.url) as caller:
        await caller.say(type="session.update", session={})
        await caller.until_over()


async def a_caller_that_connects_and_says_nothing(at: Site) -> None:
    async with at.ending(), raw_caller(at.url) as caller:
        assert await caller.until_over() == 1008


async def a_connection_that_asks_for_nothing(at: Site) -> None:
    async with at.ending(), raw_connection(at.http_address) as stream:
        await read_to_the_end(stream)


async def a_request_that_never_ends(at: Site) -> None:
    async with at.ending(), raw_connection(at.http_address) as stream:
        await stream.send(b"GET /v1/realtime HTTP/1.1\r\nHost: ")
        await read_to_the_end(stream)


async def a_caller_that_never_reads(at: Site) -> None:  # requirement V5, bug R56
    """The reason is the same whoever finds it: behind a relay that is the relay, which tells the runtime."""
    async with at.ending(EndReason.SLOW_CALLER), raw_caller(at.url, receive_buffer_bytes=2_048) as caller:
        part = {"type": "input_text", "text": "a long story"}
        await caller.say(type="conversation.item.create", item={"type": "message", "role": "user", "content": [part]})
        await caller.say(type="response.create")
        await at.enrolled.local.until_empty()
        if at.is_relayed:
            await until(lambda: at.enrolled.service.balancer.front.statistics()["connections"] == 0)


async def a_caller_that_says_goodbye_and_never_reads(at: Site) -> None:
    before = len(open_files())
    looks = 0

    def is_stuck() -> bool:
        """Frames wait and go on waiting: everything between the agent and this caller is full."""
        nonlocal looks
        looks = looks + 1 if at.enrolled.local.parts.calls.waiting_events >= 20 else 0
        return looks > 20

    async with at.ending(EndReason.CLOSED_BY_CALLER), raw_caller(at.url, receive_buffer_bytes=2_048) as caller:
        part = {"type": "input_text", "text": "a long story"}
        await caller.say(type="conversation.item.create", item={"type": "message", "role": "user", "content": [part]})
        await caller.say(type="response.create")
        await until(is_stuck)
        await caller.send(8, (1000).to_bytes(2, "big"))
        await at.enrolled.local.until_empty()
        await until(lambda: len(open_files()) <= before + 1)  # only this caller's own end is left


async def a_duplicate_session_id(at: Site) -> None:
    headers = f"x-switchboard-session: twice-{'relayed' if at.is_relayed else 'direct'}\r\n"
    async with at.ending(EndReason.CLOSED_BY_CALLER), raw_caller(at.url, headers=headers) as owner:
        await owner.say(type="session.update", session={})
        await until(lambda: at.enrolled.local.ledger.active == 1)
        with pytest.raises(AssertionError, match="409 Conflict"):
            async with raw_caller(at.url, headers=headers):
                pass
        assert at.enrolled.local.ledger.active == 1
        await owner.send(8, (1000).to_bytes(2, "big"))
        assert await owner.until_over() == 1000


WEBSOCKET_CASES: tuple[Callable[[Site], Awaitable[None]], ...] = (
    random_bytes_instead_of_http,
    random_bytes_instead_of_frames,
    random_bytes_in_frames,
    an_oversized_frame,
    audio_in_a_wrong_format,
    an_unknown_event,
    a_half_open_caller,
    a_caller_that_connects_and_says_nothing,
    a_connection_that_asks_for_nothing,
    a_request_that_never_ends,
    a_caller_that_never_reads,
    a_caller_that_says_goodbye_and_never_reads,
    a_duplicate_session_id,
)


# On gRPC


async def grpc_random_bytes_instead_of_http2(at: Site) -> None:
    async with at.ending():
        for seed in range(4):
            async with raw_connection(at.grpc_address) as stream:
                await stream.send(noise_bytes(seed))
                await read_to_the_end(stream)


async def grpc_random_bytes_instead_of_messages(at: Site) -> None:
    async with at.ending(), aio.insecure_channel(at.grpc_address) as channel:
        method: Any = channel.stream_stream("/switchboard.v1.VoiceAgent/Converse")
        for seed in range(3):
            stream: Any = method()  # Any: bytes both ways, which the stubs do not know
            await stream.write(noise_bytes(seed, 200))
            with anyio.fail_after(20):
                code = await stream.code()
            assert code is grpc.StatusCode.INVALID_ARGUMENT


async def grpc_random_bytes_in_a_call(at: Site) -> None:
    async with at.ending(EndReason.PROTOCOL_ERROR), aio.insecure_channel(at.grpc_address) as channel:
        stream: Any = channel.stream_stream("/switchboard.v1.VoiceAgent/Converse")()  # Any: as above
        await stream.write(config().SerializeToString())
        await stream.read()
        await stream.write(noise_bytes(1, 200))
        with anyio.fail_after(20), contextlib.suppress(aio.AioRpcError):
            while await stream.read():
                pass
        assert await stream.code() is grpc.StatusCode.INVALID_ARGUMENT


async def grpc_an_oversized_message(at: Site) -> None:
    chunk = pb.AudioChunk(data=bytes(2 * 1024 * 1024), format=PCM16_24K)
    async with at.ending(EndReason.CONNECTION_LOST):
        code, text = await converse(at.grpc_address, config(), pb.ConverseRequest(audio=chunk))
        assert code == "RESOURCE_EXHAUSTED"
        assert "larger than max" in text


async def grpc_an_oversized_chunk(at: Site) -> None:
    chunk = pb.AudioChunk(data=bytes(64 * 1024 + 2), format=PCM16_24K)
    async with at.ending(EndReason.PROTOCOL_ERROR):
        code, text = await converse(at.grpc_address, config(), pb.ConverseRequest(audio=chunk))
        assert (code, text) == ("INVALID_ARGUMENT", "audio.data has 65538 bytes; allowed: 1 to 48000, one second")


async def grpc_audio_in_a_wrong_format(at: Site) -> None:
    other = pb.AudioFormat(encoding=pb.AUDIO_ENCODING_PCM16, sample_rate_hz=8_000)
    wrong = [
        (pb.AudioChunk(data=bytes(320), format=other), "audio.format"),
        (pb.AudioChunk(data=bytes(320)), "audio.format"),
        (pb.AudioChunk(data=bytes(321), format=PCM16_24K), "audio.data"),
    ]
    async with at.ending(*[EndReason.PROTOCOL_ERROR] * 3):
        for chunk, field in wrong:
            code, text = await converse(at.grpc_address, config(), pb.ConverseRequest(audio=chunk))
            assert code == "INVALID_ARGUMENT"
            assert text.startswith(field)
    async with at.ending():
        bad = pb.SessionConfig(input_format=pb.AudioFormat(encoding=pb.AUDIO_ENCODING_MULAW, sample_rate_hz=24_000))
        code, text = await converse(at.grpc_address, pb.ConverseRequest(config=bad))
        assert code == "INVALID_ARGUMENT"
        assert "8000" in text


async def grpc_a_caller_that_connects_and_says_nothing(at: Site) -> None:
    async with at.ending():
        code, text = await converse(at.grpc_address)
        assert code == "DEADLINE_EXCEEDED"
        assert "first message" in text


async def grpc_a_half_open_caller(at: Site) -> None:
    """The network between loses everything and says nothing."""
    async with (
        at.ending(EndReason.CONNECTION_LOST),
        silent_hop(at.grpc_address) as hop,
        aio.insecure_channel(hop.address) as channel,
    ):
        stream = voice_pb2_grpc.VoiceAgentStub(channel).Converse()
        await stream.write(config())
        await until(lambda: at.enrolled.local.ledger.active == 1)
        hop.fall_silent()
        await at.enrolled.local.until_empty()


async def grpc_an_unknown_agent(at: Site) -> None:
    async with at.ending():
        wanted = pb.SessionConfig(agent="nobody", input_format=PCM16_24K)
        code, text = await converse(at.grpc_address, pb.ConverseRequest(config=wanted))
        assert code == ("NOT_FOUND" if at.is_relayed else "FAILED_PRECONDITION")
        assert at.is_relayed or "nobody" in text


async def grpc_a_caller_that_never_reads(at: Site) -> None:
    async with at.ending(EndReason.SLOW_CALLER), aio.insecure_channel(at.grpc_address) as channel:
        stream = voice_pb2_grpc.VoiceAgentStub(channel).Converse()
        await stream.write(config())
        await until(lambda: at.enrolled.local.ledger.active == 1)
        await stream.write(pb.ConverseRequest(text="a long story"))
        await at.enrolled.local.until_empty()


async def grpc_a_duplicate_session_id(at: Site) -> None:
    async with (
        at.ending(EndReason.CLOSED_BY_CALLER),
        WIRES["grpc"](at.enrolled.local, session_id="grpc-twice", url=at.grpc_address) as owner,
    ):
        await until(lambda: at.enrolled.local.ledger.active == 1)
        code, _ = await converse(at.grpc_address, config("grpc-twice"))
        assert code == "ALREADY_EXISTS"
        await owner.say_goodbye()
        assert await owner.until_over() == "OK"


async def grpc_a_used_or_invented_ticket(at: Site) -> None:
    async with at.ending(), aio.insecure_channel(at.grpc_address) as channel:
        stream = voice_pb2_grpc.VoiceAgentStub(channel).Converse(metadata=(("x-switchboard-ticket", "invented"),))
        await stream.write(config())
        with anyio.fail_after(20):
            assert await stream.code() is grpc.StatusCode.PERMISSION_DENIED


async def grpc_a_reservation_with_nan(at: Site) -> None:
    async with at.ending(), aio.insecure_channel(at.grpc_address) as channel:
        request = placement_pb2.ReserveRequest(session_id="s", epoch=1, fair_share_per_s=math.nan)
        with pytest.raises(aio.AioRpcError) as refused:
            await placement_pb2_grpc.PlacementStub(channel).Reserve(request)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "fair_share_per_s is nan" in str(refused.value.details())


async def registration_of_an_unknown_shape(at: Site) -> None:
    async with at.ending(), aio.insecure_channel(at.enrolled.service.control) as channel:
        for first in (
            registry_pb2.EnrollRequest(heartbeat=registry_pb2.Heartbeat(sequence=1)),
            registry_pb2.EnrollRequest(register=registry_pb2.Register(runtime_id="No Such Name", sdk_version="0.1.0")),
        ):
            stream = registry_pb2_grpc.RegistryStub(channel).Enroll()
            await stream.write(first)
            with anyio.fail_after(20):
                assert await stream.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert len(at.enrolled.service.balancer.fleet.view) == 1


GRPC_CASES: tuple[Callable[[Site], Awaitable[None]], ...] = (
    grpc_random_bytes_instead_of_http2,
    grpc_random_bytes_instead_of_messages,
    grpc_random_bytes_in_a_call,
    grpc_an_oversized_message,
    grpc_an_oversized_chunk,
    grpc_audio_in_a_wrong_format,
    grpc_a_caller_that_connects_and_says_nothing,
    grpc_a_half_open_caller,
    grpc_an_unknown_agent,
    grpc_a_caller_that_never_reads,
    grpc_a_duplicate_session_id,
    grpc_a_used_or_invented_ticket,
    grpc_a_reservation_with_nan,
    registration_of_an_unknown_shape,
)
RUNTIMES_OWN_CASES = {grpc_a_used_or_invented_ticket, grpc_a_reservation_with_nan, registration_of_an_unknown_shape}
"""Doors that a balancer does not have."""


@pytest.mark.parametrize("case", WEBSOCKET_CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("is_relayed", [False, True], ids=["direct", "relayed"])
async def test_bad_input_over_websocket(case: Callable[[Site], Awaitable[None]], is_relayed: bool) -> None:
    async with site(is_relayed) as at:
        await case(at)


@pytest.mark.parametrize(
    ("case", "is_relayed"),
    [
        pytest.param(case, is_relayed, id=f"{case.__name__}-{'relayed' if is_relayed else 'direct'}")
        for case in GRPC_CASES
        for is_relayed in ((False,) if case in RUNTIMES_OWN_CASES else (False, True))
    ],
)
async def test_bad_input_over_grpc(case: Callable[[Site], Awaitable[None]], is_relayed: bool) -> None:
    async with site(is_relayed) as at:
        await case(at)


def _holdings(at: Site) -> dict[str, object]:
    """What must come back to what it was."""
    gc.collect()
    local, balancer = at.enrolled.local, at.enrolled.service.balancer
    row = balancer.fleet.view.row(0)
    return {
        "tasks": len(asyncio.all_tasks()),
        "files": len(open_files()),
        "active": local.ledger.active,
        "reserved": local.ledger.reserved,
        "events waiting": local.parts.calls.waiting_events,
        "in flight": row.in_flight,
        "relayed connections": balancer.front.statistics()["connections"],
        "legs in the balancer's books": balancer.fleet.books.active,
        "books balanced": balancer.fleet.books.is_balanced,
    }


@pytest.mark.slow
async def test_nothing_leaks_and_nothing_is_lost(caplog: pytest.LogCaptureFixture) -> None:  # requirement S1, bug R2, B1, B47
    async with site() as direct:
        relayed = Site(direct.enrolled, is_relayed=True)

        # What is made on first use and kept is no leak: channels, pollers, caches.
        await an_unknown_event(direct)
        await an_unknown_event(relayed)
        await grpc_audio_in_a_wrong_format(direct)
        await grpc_audio_in_a_wrong_format(relayed)
        await until(lambda: _holdings(direct)["relayed connections"] == 0)
        before = _holdings(direct)
        for case in (*WEBSOCKET_CASES, *GRPC_CASES):
            for at in (direct,) if case in RUNTIMES_OWN_CASES else (direct, relayed):
                await case(at)
        try:
            await until(lambda: _holdings(direct) == before)
        except TimeoutError:
            assert _holdings(direct) == before
        local = direct.enrolled.local
        totals = local.ledger.totals
        assert totals.started == sum(totals.ended.values())
        assert before["books balanced"]
        assert EndReason.HANDLER_ERROR not in totals.ended
        assert not [record for record in caplog.records if record.name.startswith("grpc")]
        assert "conversation failed" not in local.log.getvalue()
        async with WIRES["realtime"](local) as caller:
            await caller.type("hello")
            await caller.until("reply_done")


async def test_a_report_with_nan_is_not_believed() -> None:  # bug B23
    sick, well = FakeRuntime("sick", utilisation=math.nan), FakeRuntime("well")
    async with (
        running() as service,
        sick.listening(),
        well.listening(),
        sick.enrolling(service.control),
        well.enrolling(service.control),
    ):
        view = service.balancer.fleet.view
        await until(lambda: len(view) == 2 and all(row.arrived_ns is not None for row in view.rows()))
        row = view.get("sick")
        assert row is not None
        assert row.utilisation is None or math.isfinite(row.utilisation)
        assert service.balancer.fleet.books.is_balanced


async def test_a_report_of_an_unknown_runtime_changes_nothing() -> None:
    known = FakeRuntime("known")
    async with running() as service, known.listening(), known.enrolling(service.control):
        fleet = service.balancer.fleet
        await until(lambda: len(fleet.view) == 1 and fleet.view.row(0).arrived_ns is not None)
        before = fleet.view.row(0).arrived_ns
        known.runtime_id = "stranger"
        async with known.news:
            known.news.notify_all()
        sequence = known.sequence
        await until(lambda: known.sequence > sequence + 2)
        assert [row.facts.runtime_id for row in fleet.view.rows()] == ["known"]
        assert load_pb2.LoadSnapshot(runtime_id="stranger").active == 0
        assert before is not None
