"""A gRPC call through the balancer: what its caller and its runtime see of each other is what they would see without a relay."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import anyio
import pytest
from grpc import aio

from balancer.front.dial import RuntimeConnection
from balancer.front.upgrade import Upgrade
from balancer.placement.placement import Placement
from protos.switchboard.v1 import assignment_pb2, voice_pb2_grpc
from protos.switchboard.v1 import voice_pb2 as pb
from runtime.primitives.reasons import EndReason
from tests.balancer.support.fake_runtime import FakeRuntime
from tests.balancer.support.running import Running, fleet_of, running, until
from tests.support.cable import Cable
from tests.support.local_runtime import DESK, Enrolled, enrolled_runtime

pytestmark = pytest.mark.anyio

PCM16_24K = pb.AudioFormat(encoding=pb.AUDIO_ENCODING_PCM16, sample_rate_hz=24_000)
Stream: TypeAlias = aio.StreamStreamCall[pb.ConverseRequest, pb.ConverseResponse]
_NARROW = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_536))


def config(**fields: Any) -> pb.ConverseRequest:
    return pb.ConverseRequest(config=pb.SessionConfig(input_format=PCM16_24K, **fields))


@asynccontextmanager
async def calling(address: str, metadata: tuple[tuple[str, str], ...] = (), narrow: bool = False) -> AsyncIterator[Stream]:
    async with aio.insecure_channel(address, options=_NARROW if narrow else ()) as channel:
        stream = voice_pb2_grpc.VoiceAgentStub(channel).Converse(metadata=metadata)
        try:
            with anyio.fail_after(30):
                yield stream
        finally:
            stream.cancel()


async def heard(stream: Stream, kind: str) -> pb.ConverseResponse:
    """The next message of a kind."""
    while True:
        response: object = await stream.read()
        assert isinstance(response, pb.ConverseResponse), f"over before {kind}: {await status(stream)}"
        if response.WhichOneof("payload") == kind:
            return response


async def rest(stream: Stream) -> list[str]:
    """The kinds of what is still said."""
    kinds = []
    with contextlib.suppress(aio.AioRpcError):
        while isinstance(response := await stream.read(), pb.ConverseResponse):
            kinds.append(str(response.WhichOneof("payload")))
    return kinds


async def status(stream: Stream) -> tuple[str, str]:
    return (await stream.code()).name, await stream.details() or ""


async def refusal(stream: Stream) -> tuple[str, str, int]:
    """Status, reason, and when to come again."""
    assert await rest(stream) == []
    trailers = {str(key): value for key, value in await stream.trailing_metadata() or ()}
    whole = assignment_pb2.AssignmentRefusal.FromString(trailers["refusal-bin"])  # type: ignore[arg-type]  # a -bin one has bytes
    assert whole.code == trailers["refusal-reason"]
    assert whole.retry_after_ms == int(trailers.get("retry-after-ms", "0"))
    return (await stream.code()).name, whole.code, whole.retry_after_ms


async def until_gone(at: Enrolled) -> None:
    await until(lambda: not len(at.service.balancer.front.calls))
    await at.local.until_empty()


@pytest.mark.parametrize("way", ["relay", "runtime"])
async def test_a_call_is_the_same_as_at_a_runtime(way: str) -> None:  # requirement D1
    async with enrolled_runtime() as at:
        address = at.service.grpc if way == "relay" else at.local.runtime.grpc_address
        async with calling(address) as stream:
            await stream.write(config(session_id="mine", agent=DESK))
            assert (await heard(stream, "started")).started.session_id == "mine"
            if way == "relay":
                names = {str(key): value for key, value in await stream.initial_metadata() or ()}
                assert names["x-switchboard-session"] == "mine"
                assert names["x-switchboard-runtime"] == at.local.parts.runtime_id
                assert at.service.balancer.front.calls.get("mine") is not None
            await stream.write(pb.ConverseRequest(text="hello"))
            assert (await heard(stream, "reply_done")).reply_done.text == "You said: hello."
            await stream.write(pb.ConverseRequest(end=pb.EndSession()))
            await stream.done_writing()
            assert (await rest(stream))[-1] == "ended"
            assert await status(stream) == ("OK", "")
        await until_gone(at)
        assert dict(at.local.ended) == {EndReason.CLOSED_BY_CALLER: 1}


@pytest.mark.parametrize("way", ["relay", "runtime"])
async def test_who_half_closes_behind_its_last_word_hears_the_reply_out(way: str) -> None:  # requirement D1, decision 11
    async with enrolled_runtime() as at:
        async with calling(at.service.grpc if way == "relay" else at.local.runtime.grpc_address) as stream:
            await stream.write(config())
            await stream.write(pb.ConverseRequest(text="hello"))
            await stream.write(pb.ConverseRequest(end_of_input=pb.EndOfInput()))
            await stream.done_writing()
            assert (await heard(stream, "reply_done")).reply_done.text == "You said: hello."
            assert (await rest(stream))[-1] == "ended"
            assert (await status(stream))[0] == "OK"
        await until_gone(at)
        assert dict(at.local.ended) == {EndReason.CLOSED_BY_CALLER: 1}


@pytest.mark.parametrize("way", ["relay", "runtime"])
async def test_a_half_close_alone_is_a_lost_call(way: str) -> None:  # decision 11
    async with enrolled_runtime() as at:
        async with calling(at.service.grpc if way == "relay" else at.local.runtime.grpc_address) as stream:
            await stream.write(config())
            await heard(stream, "started")
            await stream.done_writing()
            assert await rest(stream) == []
            assert await status(stream) == ("CANCELLED", "connection_lost")
        await until_gone(at)
        assert dict(at.local.ended) == {EndReason.CONNECTION_LOST: 1}


async def test_a_caller_that_vanishes_is_a_lost_call() -> None:  # requirement S1
    async with enrolled_runtime() as at:
        async with calling(at.service.grpc) as stream:
            await stream.write(config())
            await heard(stream, "started")
            stream.cancel()
            await until_gone(at)
        assert dict(at.local.ended) == {EndReason.CONNECTION_LOST: 1}


async def test_a_deadline_that_passes_is_a_lost_call() -> None:
    async with enrolled_runtime() as at, aio.insecure_channel(at.service.grpc) as channel:
        stream = voice_pb2_grpc.VoiceAgentStub(channel).Converse(timeout=0.5)
        await stream.write(config())
        await heard(stream, "started")
        await until_gone(at)
        assert dict(at.local.ended) == {EndReason.CONNECTION_LOST: 1}


async def test_a_caller_that_vanishes_before_it_has_a_place_gives_it_back() -> None:
    runtime = FakeRuntime("one", stays_silent=True)
    async with fleet_of(runtime) as service:
        async with calling(service.grpc) as stream:
            await stream.write(config())
            await until(lambda: bool(runtime.reserved))
            stream.cancel()
        await until(lambda: bool(runtime.released))  # before the answer comes: the balancer knows that it left
        runtime.answer_now.set()
        assert not runtime.connections


async def test_a_caller_who_never_reads_is_cut_off_and_holds_little(  # requirement V5
) -> None:
    async with enrolled_runtime({"stalled_after_ms": 300}, lead_ms=600_000, slow_caller_s=60.0) as at:
        most = 0
        async with calling(at.service.grpc, narrow=True) as stream:
            await stream.write(config(session_id="slow"))
            await stream.write(pb.ConverseRequest(text="a long story"))
            front = at.service.balancer.front

            def is_over() -> bool:
                nonlocal most
                most = max(most, int(front.statistics()["buffered_bytes"]))
                return bool(at.local.ended)

            await until(is_over, 20)
            await until(lambda: not len(front.calls))
            assert front.statistics()["stalled"] == 1
            # What it had not read is still on its way; behind it is why the call is over.
            await rest(stream)
            assert await status(stream) == ("RESOURCE_EXHAUSTED", "slow_caller")
        assert dict(at.local.ended) == {EndReason.SLOW_CALLER: 1}
        assert 16_384 < most < 400_000, "bytes; of tens of megabytes that the story has"


async def test_a_first_message_that_is_too_long_ends_its_call_without_a_fault_of_ours() -> None:
    async with fleet_of(FakeRuntime("r1")) as service:
        async with calling(service.grpc) as stream:
            with contextlib.suppress(aio.AioRpcError, asyncio.InvalidStateError):
                await stream.write(pb.ConverseRequest(text="x" * 3_000_000))
            assert (await status(stream))[0] == "RESOURCE_EXHAUSTED"
        await until(lambda: service.balancer.front.statistics()["bad_requests"] == 1)
        await anyio.wait_all_tasks_blocked()
        assert "failed" not in service.log.getvalue()


async def test_a_message_that_is_too_long_ends_its_call() -> None:
    async with enrolled_runtime({"max_frame_bytes": 65_536}) as at:
        async with calling(at.service.grpc) as stream:
            await stream.write(config())
            await heard(stream, "started")
            await stream.write(pb.ConverseRequest(text="x" * 70_000))
            await rest(stream)
            assert (await status(stream))[0] == "RESOURCE_EXHAUSTED"
        await until_gone(at)
        assert dict(at.local.ended) == {EndReason.CONNECTION_LOST: 1}


@pytest.mark.parametrize("way", ["relay", "runtime"])
async def test_a_broken_contract_is_named(way: str) -> None:
    async with enrolled_runtime() as at:
        async with calling(at.service.grpc if way == "relay" else at.local.runtime.grpc_address) as stream:
            await stream.write(config())
            await heard(stream, "started")
            await stream.write(config())
            await rest(stream)
            assert await status(stream) == ("INVALID_ARGUMENT", "config came twice; it is the first message only")
        await until_gone(at)
        assert dict(at.local.ended) == {EndReason.PROTOCOL_ERROR: 1}


@pytest.mark.parametrize(
    ("first", "metadata", "refused"),
    [
        (pb.ConverseRequest(text="too early"), (), ("INVALID_ARGUMENT", "bad_field", 0)),
        (config(agent="nobody"), (), ("NOT_FOUND", "unknown_agent", 0)),
        (config(), (("x-switchboard-abilities", "flying"),), ("FAILED_PRECONDITION", "unsuitable", 0)),
        (config(session_id="a"), (("x-switchboard-session", "b"),), ("INVALID_ARGUMENT", "session_differs", 0)),
        (config(), (("x-switchboard-resume", "token"),), ("PERMISSION_DENIED", "forged_resume_token", 0)),
    ],
)
async def test_a_call_that_cannot_be_is_refused(
    first: pb.ConverseRequest, metadata: tuple[tuple[str, str], ...], refused: tuple[str, str, int]
) -> None:
    async with enrolled_runtime() as at:
        async with calling(at.service.grpc, metadata) as stream:
            with contextlib.suppress(aio.AioRpcError, asyncio.InvalidStateError):  # where the refusal is quicker
                await stream.write(first)
            assert await refusal(stream) == refused
        assert dict(at.local.ended) == {}
        assert at.local.ledger.totals.started == 0


async def test_who_says_nothing_is_not_waited_for() -> None:
    async with running(head_timeout_ms=100) as service, calling(service.grpc) as stream:
        assert await refusal(stream) == ("DEADLINE_EXCEEDED", "request_timeout", 0)


async def test_who_ends_before_it_begins_is_told_what_was_missing() -> None:
    async with running() as service, calling(service.grpc) as stream:
        await stream.done_writing()
        assert (await refusal(stream))[:2] == ("INVALID_ARGUMENT", "bad_field")


async def test_without_room_the_caller_is_told_when_to_come_again() -> None:  # requirement R6
    async with running() as service, calling(service.grpc) as stream:
        await stream.write(config())
        assert (await refusal(stream))[:2] == ("UNAVAILABLE", "no_runtime")
    async with fleet_of(FakeRuntime("one", refuse_with=1)) as service, calling(service.grpc) as stream:
        await stream.write(config())
        code, reason, retry_ms = await refusal(stream)
        assert (code, reason) == ("RESOURCE_EXHAUSTED", "no_capacity")
        assert retry_ms > 0


async def test_beyond_the_limit_of_connections_callers_are_refused() -> None:
    async with enrolled_runtime({"max_connections": 2}) as at, calling(at.service.grpc) as first:
        await first.write(config())
        await heard(first, "started")
        reader, writer = await asyncio.open_connection(at.service.host, at.service.port)  # the limit is one for all doors
        await until(lambda: at.service.balancer.front.is_full)
        async with calling(at.service.grpc) as second:
            assert await refusal(second) == ("RESOURCE_EXHAUSTED", "too_many_connections", 1000)
        writer.close()
        assert await reader.read() == b""


class _Connection(asyncio.Transport):
    """To a runtime that was reached a moment ago."""

    def __init__(self, *, is_lost: bool) -> None:
        super().__init__()
        self.is_lost = is_lost
        self.is_aborted = False

    def is_closing(self) -> bool:
        return self.is_lost

    def abort(self) -> None:
        self.is_aborted = True


@pytest.mark.parametrize(
    ("is_lost", "refused"), [(True, ("UNAVAILABLE", "runtime_lost", 1000)), (False, ("ALREADY_EXISTS", "session_live", 0))]
)
async def test_what_changed_while_the_runtime_was_reached_is_seen(
    is_lost: bool, refused: tuple[str, str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It left behind its answer, or another caller was given the same place and was quicker."""
    async with enrolled_runtime() as at, calling(at.service.grpc) as first, calling(at.service.grpc) as second:
        await first.write(config(session_id="mine"))
        await heard(first, "started")
        front, connection = at.service.balancer.front, _Connection(is_lost=is_lost)

        async def reach(_: Upgrade, placement: Placement) -> tuple[Placement, RuntimeConnection]:
            quicker = replace(placement, request=replace(placement.request, session_id="mine"))
            return quicker, RuntimeConnection(connection, b"", has_asides=True)

        monkeypatch.setattr(front, "reach", reach)
        await second.write(config(session_id="other"))
        assert await refusal(second) == refused
        assert connection.is_aborted
        await first.write(pb.ConverseRequest(text="hello"))
        await heard(first, "reply_done")


async def test_a_session_that_is_live_is_not_given_twice() -> None:
    async with enrolled_runtime() as at, calling(at.service.grpc) as first, calling(at.service.grpc) as second:
        await first.write(config(session_id="mine"))
        await heard(first, "started")
        await second.write(config(session_id="mine"))
        assert (await refusal(second))[:2] == ("ALREADY_EXISTS", "session_live")
        await first.write(pb.ConverseRequest(text="hello"))
        await heard(first, "reply_done")


async def test_a_runtime_that_is_lost_for_good_ends_the_call_as_unavailable() -> None:
    runtime = FakeRuntime("one")
    async with fleet_of(runtime) as service, calling(service.grpc) as stream:
        await stream.write(config())
        assert (await stream.read()) == config_echo()  # this runtime says back what it hears
        await until(lambda: bool(runtime.connections))
        runtime.connections[0].transport.abort()
        assert await rest(stream) == []
        assert await status(stream) == ("UNAVAILABLE", "runtime lost")


def config_echo() -> pb.ConverseResponse:
    return pb.ConverseResponse.FromString(config().SerializeToString())


async def test_a_balancer_that_leaves_ends_its_calls_as_unavailable() -> None:
    async with enrolled_runtime() as at, calling(at.service.grpc) as stream:
        await stream.write(config())
        await heard(stream, "started")
        await at.service.balancer.front.drain(0.0)
        await rest(stream)
        assert await status(stream) == ("UNAVAILABLE", "the balancer is shutting down")


async def test_a_drained_runtime_without_another_says_so() -> None:  # requirement C1
    async with enrolled_runtime() as at, calling(at.service.grpc) as stream:
        await stream.write(config())
        await heard(stream, "started")
        at.local.runtime.leave()
        assert (await rest(stream))[-1] == "ended"
        assert await status(stream) == ("UNAVAILABLE", "drained")


_KEY = (("x-switchboard-resume-key", "k" * 16), ("x-switchboard-session", "mine"))


async def _back(service: Running, received: int) -> tuple[tuple[str, str], ...]:
    """Metadata of who has so many messages of its call, once the call has noticed that it is gone."""
    await until(lambda: (relay := service.balancer.front.calls.get("mine")) is not None and relay.is_awaiting)
    return (*_KEY, ("x-switchboard-received", str(received)))


async def test_a_connection_that_is_lost_behind_the_last_word_is_no_hang_up() -> None:  # requirement C4
    async with enrolled_runtime(lead_ms=200) as at, Cable(at.service.grpc).plugged() as cable:
        async with calling(cable.address, _KEY) as stream:
            await stream.write(config())
            await heard(stream, "started")
            await stream.write(pb.ConverseRequest(text="hello " * 20))
            await stream.write(pb.ConverseRequest(end_of_input=pb.EndOfInput()))
            await heard(stream, "reply_audio")
            cable.cut()
            await until(lambda: at.service.balancer.front.statistics()["away"] == 1)
        await anyio.wait_all_tasks_blocked()
        assert at.local.ledger.active == 1


async def test_a_caller_that_lost_its_connection_comes_back_to_its_call() -> None:  # requirement C4
    async with enrolled_runtime() as at:
        async with calling(at.service.grpc, _KEY) as stream:
            await stream.write(config())
            await heard(stream, "started")
            await stream.write(pb.ConverseRequest(text="hello"))
            while (response := await heard(stream, "reply_text")).ordinal < 2:
                pass
            stream.cancel()
        had = response.ordinal
        async with calling(at.service.grpc, await _back(at.service, had)) as stream:
            names = {str(key): value for key, value in await stream.initial_metadata() or ()}
            assert (names["x-switchboard-session"], names["x-switchboard-received"]) == ("mine", "2")
            ordinals, said = [], ""
            while not said:
                again: object = await stream.read()
                assert isinstance(again, pb.ConverseResponse)
                ordinals.append(again.ordinal)
                said = again.reply_done.text
            assert said == "You said: hello."
            assert ordinals == list(range(had + 1, had + 1 + len(ordinals)))
            await stream.write(pb.ConverseRequest(end=pb.EndSession()))
            assert (await rest(stream))[-1] == "ended"
            assert await status(stream) == ("OK", "")
        await until_gone(at)
        assert dict(at.local.ended) == {EndReason.CLOSED_BY_CALLER: 1}


@pytest.mark.parametrize(
    ("metadata", "refused"),
    [
        ((*_KEY, ("x-switchboard-received", "1")), ("PERMISSION_DENIED", "session_over", 0)),
        ((*_KEY, ("x-switchboard-received", "many")), ("INVALID_ARGUMENT", "bad_field", 0)),
        ((("x-switchboard-resume-key", "short"),), ("INVALID_ARGUMENT", "bad_field", 0)),
    ],
)
async def test_who_has_no_call_to_come_back_to_is_refused(
    metadata: tuple[tuple[str, str], ...], refused: tuple[str, str, int]
) -> None:
    async with running() as service, calling(service.grpc, metadata) as stream:
        assert await refusal(stream) == refused


async def test_another_s_key_opens_nothing() -> None:
    async with enrolled_runtime() as at, calling(at.service.grpc, _KEY) as stream:
        await stream.write(config())
        await heard(stream, "started")
        wrong = (("x-switchboard-resume-key", "w" * 16), _KEY[1], ("x-switchboard-received", "1"))
        async with calling(at.service.grpc, wrong) as other:
            assert await refusal(other) == ("PERMISSION_DENIED", "session_over", 0)
        await stream.write(pb.ConverseRequest(text="hello"))
        await heard(stream, "reply_done")
