"""Places that are held and not taken yet: who asks again for the same session gets the same leg, not a second place."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from balancer.placement.placement import Placement
from balancer.routing.request import PlacementRequest
from runtime.primitives.clock import NS_PER_MS, NS_PER_S

__all__ = ["PendingPlaces"]

_ATTACH_NS: Final = 10 * NS_PER_S
"""A used ticket holds its place as `attached` for this long before the first valid message."""


@dataclass(frozen=True, slots=True)
class _Pending:
    runtime_id: str
    epoch: int
    until_ns: int


class PendingPlaces:
    """`last_epoch` tells the highest epoch of a session that was used. Bounded by rate x lifetime of tickets."""

    def __init__(self, last_epoch: Callable[[str], int]) -> None:
        self._last_epoch = last_epoch
        self._places: OrderedDict[str, _Pending] = OrderedDict()

    def with_epoch(self, request: PlacementRequest, now_ns: int) -> PlacementRequest:
        """The session's next leg; the same leg again while its place is held and was not taken."""
        last = self._last_epoch(request.session_id)
        pending = self._places.get(request.session_id)
        if pending is not None and pending.until_ns > now_ns and pending.epoch > last:
            return replace(request, epoch=pending.epoch, only_runtime=pending.runtime_id)
        return replace(request, epoch=last + 1, only_runtime="")

    def add(self, placement: Placement, now_ns: int) -> None:
        until_ns = now_ns + placement.ticket_ttl_ms * NS_PER_MS + _ATTACH_NS
        self._places[placement.session_id] = _Pending(placement.runtime_id, placement.epoch, until_ns)
        self._places.move_to_end(placement.session_id)
        while self._places:  # the front is the oldest
            session_id, oldest = next(iter(self._places.items()))
            if oldest.until_ns > now_ns and self._last_epoch(session_id) < oldest.epoch:
                break
            del self._places[session_id]

    def remove(self, placement: Placement) -> None:
        """It was given back."""
        pending = self._places.get(placement.session_id)
        if pending is not None and pending.runtime_id == placement.runtime_id:
            del self._places[placement.session_id]
