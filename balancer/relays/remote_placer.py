"""A relay's placer: asks its control for every place, and remembers what the control must be told again when it comes back."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import grpc

from balancer.fleet.unary import answer_of
from balancer.placement.errors import PlacementRefused, RefusalCode
from balancer.placement.placement import Placement
from balancer.placement.reservation import Door
from balancer.relays.control_link import ControlLink
from balancer.relays.messages import place_request, placement_from, refusal_from
from balancer.routing.decision import RuntimeRefusal
from balancer.routing.request import PlacementRequest
from protos.switchboard.v1 import relay_control_pb2 as pb
from protos.switchboard.v1 import relay_control_pb2_grpc
from runtime.primitives.reasons import RefusalReason

__all__ = ["RemotePlacer"]

_RETRY_AFTER_S: Final = 1.0
_MARGIN_S: Final = 1.0
"""An answer given in the last moment needs so long to come here at most."""


class RemotePlacer:
    """The same for the front as the placer of its own process. While no control is there every new call is refused at once, with
    `control_unreachable`; who looks for a call's next runtime tries again for as long as it may."""

    def __init__(self, link: ControlLink) -> None:
        self.is_closing = False
        self._link = link
        self._number = 0

    async def place(self, request: PlacementRequest, door: Door) -> Placement:
        self._check_open()
        return await self._ask(pb.PLACE_WAY_NEW, request, door)

    async def place_again(self, failed: Placement, door: Door) -> Placement:
        self._check_open()
        request = replace(failed.request, avoid=failed.request.avoid | {failed.runtime_id})
        return await self._ask(pb.PLACE_WAY_AGAIN, request, door, failed=failed.number)

    async def adopt(self, request: PlacementRequest, lost: frozenset[tuple[str, int]]) -> Placement:
        placement = await self._ask(pb.PLACE_WAY_NEXT_LEG, request, Door.RELAY, lost=lost)
        self._link.epoch_used(placement.session_id, placement.epoch)
        return placement

    def fail(self, placement: Placement, detail: str) -> PlacementRefused:
        self._link.failed(placement.number, detail)
        why = RuntimeRefusal(placement.runtime_id, RefusalReason.UNREACHABLE, detail)
        return PlacementRefused(RefusalCode.NO_CAPACITY, "no runtime that admitted could be reached", (why,), _RETRY_AFTER_S)

    def release(self, placement: Placement) -> None:
        self._link.released(placement.number)

    def hold(self, session_id: str, epoch: int) -> None:
        self._link.hold(session_id, epoch)

    def let_go(self, session_id: str) -> None:
        self._link.let_go(session_id)

    def _check_open(self) -> None:
        if self.is_closing:
            raise PlacementRefused(RefusalCode.CLOSING, "the relay is shutting down", retry_after_s=_RETRY_AFTER_S)

    async def _ask(
        self,
        way: pb.PlaceWay.ValueType,
        request: PlacementRequest,
        door: Door,
        *,
        failed: int = 0,
        lost: frozenset[tuple[str, int]] = frozenset(),
    ) -> Placement:
        link = self._link
        if link.standing is None:
            raise _unreachable("the control cannot be reached")
        self._number += 1
        number = self._number
        message = place_request(link.life, number, way, door, request, failed=failed, lost=lost)
        stub = relay_control_pb2_grpc.RelayControlStub(link.channel)
        try:
            answer = await answer_of(stub.Place(message, timeout=link.standing.place_within_ms / 1000 + _MARGIN_S))
        except grpc.aio.AioRpcError as error:
            link.released(number)
            raise _unreachable(f"the control did not answer ({error.code().name})") from error
        except BaseException:  # cancelled: a place that is being answered, or was answered in this moment, is given back
            link.released(number)
            raise
        if answer.WhichOneof("outcome") == "held":
            return placement_from(answer.held, request, number)
        raise refusal_from(answer.refused)


def _unreachable(why: str) -> PlacementRefused:
    return PlacementRefused(RefusalCode.CONTROL_UNREACHABLE, why, retry_after_s=_RETRY_AFTER_S)
