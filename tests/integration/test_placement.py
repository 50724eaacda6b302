"""Places at a real runtime over gRPC: taken, used, given back, refused; and a drain that loses none of its calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import grpc
import pytest
from grpc import aio

from protos.switchboard.v1 import placement_pb2 as pb
from protos.switchboard.v1 import placement_pb2_grpc
from runtime.primitives.load_snapshot import RuntimeState
from runtime.primitives.reasons import EndReason
from tests.conformance.callers import Refused
from tests.conformance.wires import WIRES
from tests.support.local_runtime import LocalRuntime, enrolled_runtime, local_runtime, until
from tests.support.raw_websocket import raw_caller

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def placement(local: LocalRuntime) -> AsyncIterator[placement_pb2_grpc.PlacementAsyncStub]:
    async with aio.insecure_channel(local.runtime.grpc_address) as channel:
        yield placement_pb2_grpc.PlacementStub(channel)


def wish(session_id: str = "s1", number: int = 1, **fields: Any) -> pb.ReserveRequest:
    given: dict[str, Any] = {
        "epoch": 1,
        "balancer_id": "b",
        "balancer_incarnation": 7,
        "placement_number": number,
        "oldest_open_placement": 1,
    }
    return pb.ReserveRequest(session_id=session_id, **(given | fields))


async def test_a_place_is_reserved_once_however_often_it_is_asked_for() -> None:  # bug R23, B10
    async with local_runtime() as local, placement(local) as stub:
        first = await stub.Reserve(wish())
        again = await stub.Reserve(wish())
        assert first.admitted.ticket == again.admitted.ticket
        assert len(first.admitted.ticket) >= 22  # 128 random bits
        assert first.admitted.ticket_ttl_ms == 2_000
        assert (first.load.reserved, again.load.reserved) == (1, 1)
        other = await stub.Reserve(wish("s2", 2, door=pb.DOOR_ASSIGN))
        assert other.admitted.ticket_ttl_ms == 10_000
        assert other.load.reserved == 2
        assert other.load.sequence > again.load.sequence


async def test_the_answer_contains_its_own_placement() -> None:  # bug B11, B13
    async with local_runtime(hard_limit=2, emergency_limit=2) as local, placement(local) as stub:
        for number in (1, 2, 3):  # the third is refused, and settled all the same
            answer = await stub.Reserve(wish(f"s{number}", number))
            (upto,) = answer.load.admitted_upto
            assert (upto.balancer_id, upto.balancer_incarnation, upto.placement_number) == ("b", 7, number)
        assert answer.refused.reason == pb.REFUSAL_REASON_LIMIT
        assert answer.refused.retry_after_ms > 0
        assert answer.refused.message == "2 sessions of at most 2"
        assert answer.load.reserved == 2
        assert dict(answer.load.totals.refused) == {"limit": 1}
        assert local.ledger.totals.started == 0


async def test_a_place_is_given_back_once() -> None:
    async with local_runtime() as local, placement(local) as stub:
        ticket = (await stub.Reserve(wish())).admitted.ticket
        answer = await stub.Release(pb.ReleaseRequest(ticket=ticket))
        assert (answer.released, answer.load.reserved) == (True, 0)
        assert not (await stub.Release(pb.ReleaseRequest(ticket=ticket))).released
        assert not (await stub.Release(pb.ReleaseRequest(ticket="invented"))).released


async def test_a_placement_whose_answer_was_lost_is_given_back_by_its_number() -> None:
    async with local_runtime() as local, placement(local) as stub:
        await stub.Reserve(wish())
        name = {"session_id": "s1", "epoch": 1, "balancer_id": "b", "balancer_incarnation": 7}
        assert not (await stub.Release(pb.ReleaseRequest(**name, placement_number=2))).released  # type: ignore[arg-type]
        answer = await stub.Release(pb.ReleaseRequest(**name, placement_number=1))  # type: ignore[arg-type]
        assert (answer.released, answer.load.reserved) == (True, 0)
        assert answer.load.admitted_upto[0].placement_number == 2
        assert local.ledger.reserved == 0


async def test_a_ticket_works_once() -> None:
    async with local_runtime() as local, placement(local) as stub:
        ticket = (await stub.Reserve(wish("mine"))).admitted.ticket
        header = f"x-switchboard-ticket: {ticket}\r\n"
        async with raw_caller(local.url, headers=header) as caller:
            await caller.say(type="session.update", session={})
            await caller.until_contains('"id":"mine"')
            await until(lambda: (local.ledger.active, local.ledger.reserved) == (1, 0))
            with pytest.raises(AssertionError, match="403 Forbidden"):
                async with raw_caller(local.url, headers=header):
                    pass
            with pytest.raises(aio.AioRpcError) as live:
                await stub.Reserve(wish("mine", 2, epoch=2))
            assert live.value.code() is grpc.StatusCode.ALREADY_EXISTS
            assert not (await stub.Release(pb.ReleaseRequest(ticket=ticket))).released
            assert local.ledger.active == 1
        await local.until_empty()


async def test_a_place_that_nobody_comes_for_is_free_again() -> None:
    async with local_runtime() as local, placement(local) as stub:
        ticket = (await stub.Reserve(wish())).admitted.ticket
        await local.until_empty()
        with pytest.raises(AssertionError, match="403 Forbidden"):
            async with raw_caller(local.url, headers=f"x-switchboard-ticket: {ticket}\r\n"):
                pass
        assert local.ledger.totals.started == 0


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"session_id": ""}, "session_id"),
        ({"session_id": "a b"}, "session_id"),
        ({"epoch": 0}, "epoch"),
        ({"fair_share_per_s": -1.0}, "fair_share_per_s"),
        ({"fair_share_per_s": float("inf")}, "fair_share_per_s"),
        ({"placement_number": 0}, "placement_number"),
    ],
)
async def test_a_bad_field_is_named(fields: dict[str, Any], name: str) -> None:
    async with local_runtime() as local, placement(local) as stub:
        with pytest.raises(aio.AioRpcError) as refused:
            await stub.Reserve(wish(**fields))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert str(refused.value.details()).startswith(name)
        assert local.ledger.reserved == 0


@pytest.mark.parametrize(
    ("needs", "words"), [(pb.Needs(agent="nobody"), "nobody"), (pb.Needs(abilities=["fly"]), "fly"), (pb.Needs(agent="desk"), "")]
)
async def test_what_is_not_served_here_is_refused(needs: pb.Needs, words: str) -> None:
    async with local_runtime() as local, placement(local) as stub:
        answer = await stub.Reserve(wish(needs=needs))
        assert answer.WhichOneof("outcome") == ("refused" if words else "admitted")
        if words:
            assert answer.refused.reason == pb.REFUSAL_REASON_UNSUITABLE
            assert words in answer.refused.message


async def test_an_older_epoch_is_refused() -> None:
    async with local_runtime() as local, placement(local) as stub:
        ticket = (await stub.Reserve(wish(epoch=3))).admitted.ticket
        await stub.Release(pb.ReleaseRequest(ticket=ticket))
        answer = await stub.Reserve(wish(number=2, epoch=2))
        assert answer.refused.reason == pb.REFUSAL_REASON_STALE_EPOCH


async def test_a_moved_leg_may_use_the_room_above_the_limit() -> None:
    async with local_runtime(hard_limit=1, emergency_limit=2) as local, placement(local) as stub:
        assert (await stub.Reserve(wish("s1", 1))).WhichOneof("outcome") == "admitted"
        assert (await stub.Reserve(wish("s2", 2))).WhichOneof("outcome") == "refused"
        adoption = {"kind": pb.PLACEMENT_KIND_ADOPTION}
        assert (await stub.Reserve(wish("s2", 3, **adoption))).WhichOneof("outcome") == "admitted"
        assert (await stub.Reserve(wish("s3", 4, **adoption))).WhichOneof("outcome") == "refused"


async def test_a_drain_waits_for_all_calls_and_takes_nothing_new() -> None:  # bug R33
    async with local_runtime(drain_timeout_s=60.0) as local, placement(local) as stub:
        async with WIRES["grpc"](local) as last:
            async with WIRES["realtime"](local) as first:
                await until(lambda: local.ledger.active == 2)
                local.runtime.leave()
                await until(lambda: local.parts.calls.state is RuntimeState.DRAINING)
                answer = await stub.Reserve(wish())
                assert answer.refused.reason == pb.REFUSAL_REASON_DRAINING
                for wire in WIRES.values():
                    with pytest.raises(Refused) as refused:
                        async with wire(local):
                            pass
                    assert refused.value.status in ("503", "UNAVAILABLE")
                await first.type("still here")
                await first.until("reply_done")
                await first.say_goodbye()
            await local.until_ended(EndReason.CLOSED_BY_CALLER)
            await last.type("me too")
            assert (await last.until("reply_done")).text == "You said: me too."
            assert not local.left.is_set()
            await last.say_goodbye()
            assert await last.until_over() == "OK"
        with anyio.fail_after(20):
            await local.left.wait()
        assert dict(local.ended) == {EndReason.CLOSED_BY_CALLER: 2}


async def test_a_drain_ends_what_is_left_at_its_bound() -> None:  # bug R37
    async with local_runtime(drain_timeout_s=0.3) as local, WIRES["realtime"](local) as one, WIRES["grpc"](local) as other:
        await until(lambda: local.ledger.active == 2)
        local.runtime.leave()
        assert await one.until_over() == "1012 drained"
        assert await other.until_over() == "UNAVAILABLE"
        with anyio.fail_after(20):
            await local.left.wait()
        assert dict(local.ended) == {EndReason.DRAINED: 2}


async def test_a_drain_waits_for_a_caller_that_holds_a_ticket() -> None:  # bug B43
    async with local_runtime(drain_timeout_s=60.0) as local, placement(local) as stub:
        ticket = (await stub.Reserve(wish("late", door=pb.DOOR_ASSIGN))).admitted.ticket
        local.runtime.leave()
        await until(lambda: local.parts.calls.state is not RuntimeState.READY)
        await anyio.wait_all_tasks_blocked()
        assert local.parts.calls.state is RuntimeState.DRAINING
        async with raw_caller(local.url, headers=f"x-switchboard-ticket: {ticket}\r\n") as caller:
            await caller.say(type="session.update", session={})
            await caller.until_contains('"id":"late"')
            await caller.send(8, (1000).to_bytes(2, "big"))
            assert await caller.until_over() == 1000
        with anyio.fail_after(20):
            await local.left.wait()
        assert dict(local.ended) == {EndReason.CLOSED_BY_CALLER: 1}


async def test_a_leaving_runtime_says_goodbye_to_its_balancer() -> None:  # bug R12, B18
    async with enrolled_runtime() as enrolled:
        fleet = enrolled.service.balancer.fleet
        async with WIRES["realtime"](enrolled.local, url=enrolled.service.url) as caller:
            await caller.type("hello")
            await caller.until("reply_done")
            await until(lambda: fleet.books.active == 1)
            enrolled.local.runtime.leave()
            assert (await caller.until_over()).startswith("1012")
        with anyio.fail_after(20):
            await enrolled.local.left.wait()
        await until(lambda: fleet.books.active == 0)
        assert dict(fleet.books.totals.ended) == {"drained": 1}
        assert fleet.books.totals.runtime_lost == 0
        assert fleet.books.is_balanced
