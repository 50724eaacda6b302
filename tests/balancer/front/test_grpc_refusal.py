"""A gRPC caller without a place is told all that there is to know, within bounds."""

from __future__ import annotations

from typing import Any, cast

import grpc
import pytest

from balancer.front.grpc_refusal import refuse_placement
from balancer.placement.errors import PlacementRefused, RefusalCode
from balancer.placement.waiting import QueuePlace
from balancer.routing.decision import RuntimeRefusal
from protos.switchboard.v1 import assignment_pb2 as pb
from runtime.primitives.reasons import RefusalReason

pytestmark = pytest.mark.anyio


class _Aborted(Exception):
    pass


class _Context:
    async def abort(self, code: grpc.StatusCode, details: str, trailers: tuple[tuple[str, str | bytes], ...]) -> None:
        self.told = code, details, dict(trailers)
        raise _Aborted


async def test_no_more_runtimes_are_named_than_a_trailer_can_hold() -> None:
    runtimes = tuple(RuntimeRefusal(f"runtime-{number}", RefusalReason.LIMIT, "full") for number in range(20))
    refused = PlacementRefused(RefusalCode.NO_CAPACITY, "nobody has a place", runtimes, 1.5, QueuePlace(3, 4.0))
    context = _Context()
    with pytest.raises(_Aborted):
        await refuse_placement(cast(Any, context), refused)
    code, details, trailers = context.told
    assert (code, details) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "nobody has a place")
    assert (trailers["refusal-reason"], trailers["retry-after-ms"]) == ("no_capacity", "1500")
    whole = trailers["refusal-bin"]
    assert isinstance(whole, bytes)
    told = pb.AssignmentRefusal.FromString(whole)
    assert (len(told.runtimes), told.runtimes_left_out) == (16, 4)
    assert (told.queue_place, told.estimated_wait_ms) == (3, 4000)


@pytest.mark.parametrize("code", RefusalCode)
async def test_each_refusal_has_a_status(code: RefusalCode) -> None:
    context = _Context()
    with pytest.raises(_Aborted):
        await refuse_placement(cast(Any, context), PlacementRefused(code, "no"))
    status, _, trailers = context.told
    assert status is not grpc.StatusCode.OK
    assert "retry-after-ms" not in trailers
